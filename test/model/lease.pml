/* SPDX-License-Identifier: Apache-2.0 */
/* The lease protocol between master and one node, as proto/AGENT.md tells it, in ticks of time.
 *
 * Checked: never do two attempts of one task run at once, and a silent node's work is started again in
 * the end. The network loses, delays, repeats and reorders messages (both directions); the master
 * restarts with its state, and can be rolled back to an older store of its own; it stops as planned
 * (granting a longer lease) or by a crash; the agent stops, crashes and comes back with or without its
 * own state; the node's clock runs slower than the master's by a bounded share. meadow-init is on its
 * own: it looks at the file's deadline alone.
 *
 * Time is counted in the master's ticks. The node's clock may miss one tick in DRIFT_EVERY, which is
 * what the margin is for. Deadlines are held as ticks that are left, which keeps the state small.
 *
 * -DNO_FENCE   meadow-init does not freeze: must be found
 * -DNO_MARGIN  the master adds no margin: must be found
 * -DRENEW_ALL  an answer renews what was given away, too: must be found
 * -DNO_GRANT_RECORD  the next master knows nothing of a planned stop's longer lease: must be found
 */
#ifndef LEASE
#define LEASE 1
#endif
#define GRANT (LEASE + 3)
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 2
#endif
#define FAULTS 2 /* in all, of every kind but the network's */

/* --- the node: its attempt 1, its lease file, its clock --- */
byte left = LEASE;      /* of the deadline in the lease file, on the node's clock; 0 = over */
bool alive1 = true;     /* processes of attempt 1 exist */
bool frozen1 = false;
bool told_stop = false; /* the agent applied an assignment that gives it away */
bool agent_up = true;
bool knows_epoch = true; /* the agent has an assignment of the master's present epoch */
bool missed = false;    /* the node's clock has used up its drift */

/* --- the sync under way: age = ticks of the node's clock since it was sent --- */
bool asked = false;     /* a sync is on its way or held by the master */
byte ask_age;
bool reached = false;   /* the master has it */
bool answered = false;  /* its answer is on its way; a copy may come again */
bool ans_renew, ans_stop, ans_grant, ans_ours; /* ours: of the present master */
byte ans_age;

/* --- the master --- */
byte silent = 0;        /* ticks since it last received a sync, or since it may judge */
byte granted = 0;       /* ticks for which an earlier master's grant may hold */
bool master_up = true;
bool stopping = false;  /* grants with each answer until it is down */
bool record = false;    /* the grant's record, durable */
bool given_away = false; /* decided and durable */
bool alive2 = false;    /* attempt 2 runs elsewhere */
bool network = true;    /* a partition is a network that loses everything */

byte faults = 0;
bool beat = false;      /* time goes on */

#define runs1 (alive1 && !frozen1)

/* One tick of the master's clock; the node's too, unless it lags behind. */
inline tick_node() {
  if :: left > 0 -> left-- :: else fi;
  if :: asked && ask_age < GRANT + 1 -> ask_age++ :: else fi;
  if :: answered && ans_age < GRANT + 1 -> ans_age++ :: else fi
}

inline tick_master() {
  beat = !beat;
  if :: master_up && silent < LEASE + MARGIN -> silent++ :: else fi;
  if :: master_up && granted > 0 -> granted--; if :: granted == 0 && !stopping -> record = false :: else fi :: else fi;
#ifndef NO_FENCE
  /* The timer fires at the deadline, whoever is alive. */
  if :: alive1 && left == 0 -> frozen1 = true :: else fi
#endif
}

inline take_answer() {
  if
  :: ans_renew && alive1 && !told_stop ->
     if :: ans_grant -> renew(GRANT, ans_age) :: else -> renew(LEASE, ans_age) fi
  :: else -> skip
  fi;
  if :: ans_stop -> told_stop = true :: else fi;
  if :: ans_ours -> knows_epoch = true :: else fi
}

#define may_judge (master_up && !stopping && !given_away && silent >= LEASE + MARGIN && granted == 0)
#define must_start (master_up && given_away && !alive2)
#ifdef URGENT /* for liveness: the master does in time what it may do */
#define time_passes (!may_judge && !must_start)
#else
#define time_passes (!(given_away && alive2) || alive1)
#endif

inline renew(span, age) {
  /* Deadline = when the sync was sent + the lease: what is left of it now. */
  if
  :: span > age -> left = span - age; frozen1 = false
  :: else -> left = 0
  fi
}

inline restart() {
  master_up = true; silent = 0; knows_epoch = false; ans_ours = false;
#ifndef NO_GRANT_RECORD
  if :: record -> granted = GRANT + MARGIN :: else -> granted = 0 fi
#endif
}

active proctype world() {
end_world:
  do
  /* time */
  :: d_step { time_passes -> tick_node(); tick_master() }
  :: d_step { time_passes && !missed -> missed = true; tick_master() }

  /* agent: one sync at a time; a lost one is given up and sent anew */
  :: d_step { agent_up && !asked && !answered && alive1 -> asked = true; reached = false; ask_age = 0 }
  :: d_step { asked && !reached && network && master_up -> reached = true; silent = 0;
#ifndef NO_GRANT_RECORD
       if :: knows_epoch -> granted = 0; if :: !stopping -> record = false :: else fi :: else fi
#else
       granted = 0
#endif
     }
  :: d_step { asked && !reached && agent_up -> asked = false }      /* lost, or timed out */

  /* master: answers a held sync at any time; what it says follows from what it has decided */
  :: d_step { reached && master_up ->
       answered = true; ans_ours = true; ans_age = ask_age; ans_stop = given_away; ans_grant = stopping;
#ifdef RENEW_ALL
       ans_renew = true;
#else
       ans_renew = !given_away;
#endif
       asked = false; reached = false }
  /* the answer comes, perhaps late; once more; or never */
  :: d_step { answered && network && agent_up -> take_answer(); answered = false }
  :: d_step { answered && network && agent_up -> take_answer() }
  :: d_step { answered -> answered = false }
  /* told to stop: killed at once when frozen, else it ends in its grace */
  :: d_step { told_stop && agent_up && alive1 -> alive1 = false; frozen1 = false }

  /* master: judges, and starts the next attempt elsewhere */
  :: d_step { may_judge -> given_away = true }
  :: d_step { must_start -> alive2 = true }

  /* faults */
  :: d_step { faults < FAULTS && network -> faults++; network = false }
  :: d_step { !network -> network = true }
  /* the agent dies, or is stopped: then what is under way stays so */
  :: d_step { faults < FAULTS && agent_up -> faults++; agent_up = false;
       asked = false; reached = false; answered = false; knows_epoch = false }
  :: d_step { faults < FAULTS && agent_up -> faults++; agent_up = false }
  :: d_step { !agent_up -> agent_up = true }
  :: d_step { faults < FAULTS && master_up && !stopping -> faults++; stopping = true; record = true }
  :: d_step { master_up && stopping -> master_up = false; stopping = false; reached = false; asked = false }
  :: d_step { faults < FAULTS && master_up && !stopping -> faults++; master_up = false; reached = false; asked = false }
  :: d_step { !master_up -> restart() }
  /* an older store: the decision is forgotten */
  :: d_step { !master_up && given_away && !alive2 -> restart(); given_away = false }
  od
}

/* Every state: the old attempt and the new one never run at once. */
ltl never_two { [] !(runs1 && alive2) }
/* A node that is cut off for good from a master that stays up: its work is started elsewhere. */
ltl restarted {
  ([] <> beat && [] <> !beat && <> [] (!network && master_up && !stopping)) -> <> (alive2 || !alive1)
}
