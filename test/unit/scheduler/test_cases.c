// SPDX-License-Identifier: Apache-2.0
// Who starts when and where, worked out by hand: priorities, shares, quotas, teams, backfill and
// reservations, gangs, cards, ties. How a row reads: queue_world.h. Half life 1 h; a job that has
// been the head for 10 minutes has its nodes held.
#include "test/unit/scheduler/queue_world.h"

#include "common/cleanup.h"

static const struct row {
    const char *what, *nodes, *play, *expected;
} rows[] = {
    // --- priority and age ---
    {"one job starts", "n1=4", "a ann 50 1", "a>n1"},
    {"age among equals", "n1=4", "a ann 50 4; b ann 50 4", "a>n1"},
    {"then the next", "n1=4", "a ann 50 4; b ann 50 4 | -a", "a>n1 | b>n1"},
    {"priority before age", "n1=4", "a ann 10 4; b ann 20 4 | -b", "b>n1 | a>n1"},
    {"priority before shares", "n1=4", "a ann 50 3; b ann 60 1; c bob 50 1", "b>n1 c>n1"},
    {"a running job is not pushed out", "n1=4", "a ann 10 4 | b ann 90 4", "a>n1 | -"},
    {"equal jobs in their order", "n1=4", "a ann 50 1; b ann 50 1; c ann 50 1", "a>n1 b>n1 c>n1"},
    {"a withdrawn job does not start", "n1=4", "a ann 50 4; b ann 50 4; !a", "b>n1"},
    {"nothing waits", "n1=4", "", ""},
    {"the lowest and the highest priority", "n1=1", "a ann 0 1; b ann 100 1 | -b", "b>n1 | a>n1"},
    // --- shares ---
    {"users take turns", "n1=4", "a ann 50 1; b ann 50 1; c bob 50 1; d bob 50 1",
     "a>n1 c>n1 b>n1 d>n1"},
    {"who holds less comes first", "n1=4", "a ann 50 2 | b ann 50 2; c bob 50 2", "a>n1 | c>n1"},
    {"the dominant share counts: memory", "n1=10,10",
     "a ann 50 1,5; b bob 50 3,3 | c ann 50 2,2; "
     "d bob 50 2,2; e bob 50 2,2",
     "a>n1 b>n1 | d>n1"},
    {"the dominant share counts: cards", "n1=100,100,4",
     "a ann 50 10,0,1; b bob 50 40 | c bob 50 10; d ann 50 10", "a>n1 b>n1 | d>n1 c>n1"},
    {"weight 2 gets twice as much", "n1=8",
     "weight ann 2; a ann 50 1; b ann 50 1; c ann 50 1; d ann 50 1; e ann 50 1; v bob 50 1; "
     "w bob 50 1; y bob 50 1; z bob 50 1",
     "a>n1 v>n1 b>n1 c>n1 w>n1 d>n1 e>n1 y>n1"},
    {"use of the past counts", "n1=4", "a ann 50 4 | +100; -a; b ann 50 4; c bob 50 4",
     "a>n1 | c>n1"},
    {"and is forgotten in time", "n1=4",
     "a ann 50 4 | +100; -a | c bob 50 4 | +200; -c | +999999; b bob 50 4; d ann 50 4",
     "a>n1 | - | c>n1 | - | b>n1"},
    {"what is newer weighs more", "n1=4",
     "a ann 50 4 | +100; -a; +7200; c bob 50 4 | +100; -c; b bob 50 4; d ann 50 4",
     "a>n1 | c>n1 | d>n1"},
    {"equal shares: the older job", "n1=4", "a bob 50 4; b ann 50 4", "a>n1"},
    {"a new user comes before one with a past", "n1=2",
     "a ann 50 2 | +60; -a; b ann 50 2; c cy 50 2", "a>n1 | c>n1"},
    {"three users share three ways", "n1=3",
     "a ann 50 1; b ann 50 1; c ann 50 1; d bob 50 1; "
     "e bob 50 1; f cy 50 1",
     "a>n1 d>n1 f>n1"},
    // --- teams ---
    {"teams share before users", "n1=4",
     "team ann red; team bob red; a ann 50 1; b bob 50 1; c bob 50 1; d cy 50 1; e cy 50 1",
     "a>n1 d>n1 b>n1 e>n1"},
    {"in a team the user with less", "n1=4",
     "team ann red; team bob red; a ann 50 2 | b ann 50 2; c bob 50 2", "a>n1 | c>n1"},
    {"moving to a team takes the use along", "n1=4",
     "a ann 50 2 | team ann red; team bob red; b bob 50 2; c cy 50 2", "a>n1 | c>n1"},
    // --- quotas ---
    {"quota of cards", "n1=8,16,4",
     "quota ann gpu 2; a ann 50 1,0,2; b ann 50 1,0,1; c bob 50 "
     "1,0,2",
     "a>n1 c>n1"},
    {"and then the next", "n1=8,16,4", "quota ann gpu 2; a ann 50 1,0,2; b ann 50 1,0,1 | -a",
     "a>n1 | b>n1"},
    {"quota of cpu", "n1=8", "quota ann cpu 3; a ann 50 2; b ann 50 2; c ann 50 1", "a>n1 c>n1"},
    {"quota of memory", "n1=8,16", "quota ann mem 4; a ann 50 1,3; b ann 50 1,2; c ann 50 1,1",
     "a>n1 c>n1"},
    {"quota of running jobs", "n1=8", "quota ann jobs 2; a ann 50 1; b ann 50 1; c ann 50 1 | -a",
     "a>n1 b>n1 | c>n1"},
    {"a job of several tasks is one job", "n1=8", "quota ann jobs 1; a ann 50 1*3; b ann 50 1",
     "a>n1,n1,n1"},
    {"a gang counts as a whole", "n1=8", "quota ann cpu 3; a ann 50 1*4; b ann 50 1*3",
     "b>n1,n1,n1"},
    {"quota 0 is none at all", "n1=8,16,2", "quota ann gpu 0; a ann 50 1,0,1; b ann 50 1", "b>n1"},
    {"\"all\" counts as what it got", "n1=8", "quota ann cpu 4; a ann 50 all | quota ann cpu 8",
     "- | a>n1"},
    {"a raised quota lets it start", "n1=8", "quota ann cpu 1; a ann 50 2 | quota ann cpu 2",
     "- | a>n1"},
    {"who is at the quota blocks nobody", "n1=4", "quota ann cpu 1; a ann 90 4; b bob 10 4",
     "b>n1"},
    // --- backfill ---
    {"a small job passes a big one", "n1=4", "a ann 50 3 | b ann 50 4; c ann 50 1", "a>n1 | c>n1"},
    {"limits known: one that ends in time passes", "n1=4",
     "a ann 50 3 t100 | b ann 50 4; c ann 50 1 t90", "a>n1 | c>n1"},
    {"limits known: one that does not, waits", "n1=4",
     "a ann 50 3 t100 | b ann 50 4; c ann 50 1 t110", "a>n1 | -"},
    {"limits known: one without a limit waits", "n1=4", "a ann 50 3 t100 | b ann 50 4; c ann 50 1",
     "a>n1 | -"},
    {"ending in the very moment is in time", "n1=4",
     "a ann 50 3 t100 | b ann 50 4; c ann 50 1 t100", "a>n1 | c>n1"},
    {"as time passes less is in time", "n1=4",
     "a ann 50 3 t100 | +50; b ann 50 4; c ann 50 1 t60; d ann 50 1 t40", "a>n1 | d>n1"},
    {"other nodes stay open to all", "n1=4 n2=2", "a ann 50 4 t100 | b ann 50 3; c ann 50 2",
     "a>n1 | c>n2"},
    {"the head starts when its place is free", "n1=4",
     "a ann 50 3 t100 | b ann 50 4; c ann 50 1 | -a", "a>n1 | - | b>n1"},
    {"and then what waited behind it", "n1=4", "a ann 50 3 t100 | b ann 50 3; c ann 50 2 | -a | -b",
     "a>n1 | - | b>n1 | c>n1"},
    {"the place of the first to end", "n1=4 n2=4",
     "a ann 50 4 t200; b ann 50 3 t100 | c ann 50 4; d ann 50 1 t150", "a>n1 b>n2 | -"},
    {"on the other node it does not matter", "n1=4 n2=4",
     "a ann 50 3 t200; b ann 50 4 t100 | c ann 50 4; d ann 50 1", "a>n1 b>n2 | d>n1"},
    {"a higher class takes the reservation over", "n1=4",
     "a ann 50 3 t100 | b ann 50 4 | c ann 60 4; d ann 55 1 t200 | -a", "a>n1 | - | - | c>n1"},
    {"a higher class is not held back", "n1=4", "a ann 50 3 t100 | b ann 50 4 | c ann 60 1",
     "a>n1 | - | c>n1"},
    {"a smaller share does not take it over", "n1=4",
     "a ann 50 3 t100 | b ann 50 4 | c bob 50 4 | -a", "a>n1 | - | - | b>n1"},
    {"a withdrawn head gives way", "n1=4", "a ann 50 3 t100 | b ann 50 4; c ann 50 1 | !b",
     "a>n1 | - | c>n1"},
    {"a job too large for the cluster is no head", "n1=4",
     "a ann 50 3 t100 | b ann 50 9; c ann 50 1", "a>n1 | c>n1"},
    {"a head over its quota gives way", "n1=4",
     "a ann 50 3 t100 | b bob 50 4; c ann 50 1 | quota bob cpu 2", "a>n1 | - | c>n1"},
    {"no limits: free until the wait is over", "n1=4", "a ann 50 3 | b ann 50 4 | +599; c ann 50 1",
     "a>n1 | - | c>n1"},
    {"no limits: held after the wait", "n1=4", "a ann 50 3 | b ann 50 4 | +600; c ann 50 1",
     "a>n1 | - | -"},
    {"held: short ones as well", "n1=4", "a ann 50 3 t9000 | b ann 50 4 | +600; c ann 50 1 t1",
     "a>n1 | - | -"},
    {"held: only where the head could run", "n1=4 n2=2",
     "a ann 50 3 | b ann 50 4 | +600; c ann 50 1; d ann 50 2", "a>n1 | - | c>n2"},
    {"held until it starts", "n1=4", "a ann 50 3 | b ann 50 4 | +600; c ann 50 1 | -a | -b",
     "a>n1 | - | - | b>n1 | c>n1"},
    {"a node that goes takes the reservation along", "n1=4 n2=4",
     "a ann 50 3 t100; b ann 50 3 t200 | c ann 50 4; x n1 | -a | -b", "a>n1 b>n2 | - | - | c>n2"},
    // --- gangs ---
    {"all or nothing", "n1=2 n2=2", "a ann 50 1*5", "-"},
    {"over nodes", "n1=2 n2=2", "a ann 50 1*4", "a>n1,n1,n2,n2"},
    {"3 and 3 on 5: one holds all, the other none", "n1=5,16,5",
     "a ann 50 1,0,1*3; b bob 50 1,0,1*3 | -a", "a>n1,n1,n1 | b>n1,n1,n1"},
    {"3 and 3 on 3 and 2", "n1=3 n2=2", "a ann 50 1*3; b bob 50 1*3 | -a",
     "a>n2,n2,n1 | b>n2,n2,n1"},
    {"different tasks, largest first", "n1=4 n2=2", "a ann 50 1 4 1", "a>n2,n1,n2"},
    {"a gang spreads", "n1=4 n2=4 n3=4", "a ann 50 1*3 s", "a>n1,n2,n3"},
    // --- a node for one job ---
    {"alone on an empty node", "n1=4 n2=4", "a ann 50 1; b ann 50 1 ^alone; c ann 50 1",
     "a>n1 b>n2 c>n1"},
    {"not beside others", "n1=4", "a ann 50 1 | b ann 50 1 ^alone | -a", "a>n1 | - | b>n1"},
    {"nobody beside it", "n1=4", "a ann 50 1 ^alone | b ann 50 1; c bob 50 1 ^alone | -a",
     "a>n1 | - | c>n1"},
    {"its own tasks share", "n1=4 n2=4", "a ann 50 2*2 ^alone; b ann 50 1", "a>n1,n1 b>n2"},
    {"over several nodes", "n1=4 n2=4", "a ann 50 3*2 ^alone; b ann 50 1 | -a", "a>n1,n2 | b>n1"},
    {"all of them alone or none", "n1=4 n2=4", "a ann 50 1; b ann 50 3*2 ^alone | -a",
     "a>n1 | b>n1,n2"},
    {"alone needs no room to be kept out", "n1=4", "a ann 50 0 | b ann 50 1 ^alone | -a",
     "a>n1 | - | b>n1"},
    {"its reservation: short work only", "n1=4",
     "a ann 50 1 t100 | b ann 50 1 ^alone; c ann 50 1 t50; d ann 50 1 t200 | -a; -c",
     "a>n1 | c>n1 | b>n1"},
    // --- gangs on one node, on few ---
    {"on one node", "n1=4 n2=6", "a ann 50 2*3 ^same", "a>n2,n2,n2"},
    {"on one node or not at all", "n1=4 n2=4", "a ann 50 2*3 ^same; b ann 50 2*3", "b>n1,n1,n2"},
    {"of those that have room, the tightest", "n1=8 n2=6 n3=7", "a ann 50 2*3 ^same", "a>n2,n2,n2"},
    {"spread says which: the emptiest", "n1=8 n2=6 n3=7", "a ann 50 2*3 s ^same", "a>n1,n1,n1"},
    {"different tasks on one node", "g1=8,16,2 g2=8,16,4", "a ann 50 1,0,2 1,0,1 2 ^same",
     "a>g2,g2,g2"},
    {"on few: the roomiest first", "n1=2 n2=6 n3=4", "a ann 50 1*8 ^few",
     "a>n2,n2,n2,n2,n2,n2,n1,n1"},
    {"on few: one, if one has room", "n1=4 n2=9 n3=8", "a ann 50 2*4 ^few", "a>n3,n3,n3,n3"},
    {"on few: all or nothing", "n1=2 n2=2", "a ann 50 1*5 ^few; b ann 50 1*4", "b>n1,n1,n2,n2"},
    {"on one node, nobody else there", "n1=4 n2=4", "a ann 50 1; b ann 50 2*2 ^same ^alone",
     "a>n1 b>n2,n2"},
    {"on one node: held where it could be", "n1=4 n2=2",
     "a ann 50 1; x n2; b ann 50 2*2 ^same | o n2; +600; c ann 50 1", "a>n1 | c>n2"},
    // --- affinity ---
    {"beside another component", "n1=4 n2=4", "a ann 50 1 3 ^0+1; b ann 50 4", "a>n1,n1 b>n2"},
    {"the companion comes along to where there is room", "n1=2 g1=8,16,1",
     "a ann 50 1,0,1 1 ^0+1; b ann 50 2", "a>g1,g1 b>n1"},
    {"each with one beside it", "n1=4 n2=4", "a ann 50 2*2 2*2 ^0+1", "a>n1,n2,n1,n2"},
    {"one companion is enough", "n1=4 n2=4", "a ann 50 1*3 1 ^0+1", "a>n1,n1,n1,n1"},
    {"beside each other", "n1=4 n2=6", "a ann 50 3 3 ^0+1 ^1+0", "a>n2,n2"},
    {"three in a row", "n1=4 n2=6", "a ann 50 2 2 2 ^0+1 ^1+2", "a>n2,n2,n2"},
    {"no node has room for both", "n1=4 n2=4", "a ann 50 3 3 ^0+1; b ann 50 4", "b>n1"},
    {"beside another job", "n1=4 n2=4", "a ann 50 3 | b ann 50 1 ^0+a; c ann 50 4",
     "a>n1 | b>n1 c>n2"},
    {"another job that does not run yet", "n1=4 n2=4", "b ann 50 1 ^0+a | a ann 50 3",
     "- | a>n1 b>n1"},
    {"another job's node is full", "n1=4 n2=4", "a ann 50 4 | b ann 50 1 ^0+a; c bob 50 4 | -c",
     "a>n1 | c>n2 | -"},
    {"apart from its like", "n1=4 n2=4 n3=4", "a ann 50 1*2 ^0-0; b ann 50 1*4 ^0-0", "a>n1,n2"},
    {"apart from another component", "n1=4 n2=4", "a ann 50 1*2 1 ^0-1", "a>n1,n1,n2"},
    {"apart counts both ways", "n1=4 n2=4", "a ann 50 1*2 1 ^1-0", "a>n1,n1,n2"},
    {"apart from another job", "n1=4 n2=4", "a ann 50 1 | b ann 50 1*2 ^0-a", "a>n1 | b>n2,n2"},
    {"apart from another job that is everywhere", "n1=4 n2=4",
     "a ann 50 1*2 s | b ann 50 1 ^0-a | -a", "a>n1,n2 | - | b>n1"},
    {"near one, apart from another", "n1=4 n2=4 n3=4",
     "a ann 50 1*3 s; b ann 50 3 | c ann 50 1 ^0+a ^0-b", "a>n1,n2,n3 b>n1 | c>n2"},
    // --- cards ---
    {"cards are packed", "g1=8,16,4 g2=8,16,4", "a ann 50 1,0,1; b ann 50 1,0,1; c ann 50 1,0,4",
     "a>g1 b>g1 c>g2"},
    {"work without cards keeps off them", "g1=8,16,4 n1=2", "a ann 50 1; b ann 50 1; c ann 50 1",
     "a>n1 b>n1 c>g1"},
    {"2 users, 3 cards, 2 each: one starts", "g1=8,16,3", "a ann 50 1,0,2; b bob 50 1,0,2", "a>g1"},
    {"all cards of a node", "g1=8,16,2 g2=8,16,4", "a ann 50 1,0,1; b ann 50 1,0,all", "a>g1 b>g2"},
    {"four single cards beside one of four", "g1=8,16,4 g2=8,16,4",
     "a ann 50 1,0,1*4; b bob 50 1,0,4", "a>g1,g1,g1,g1 b>g2"},
    // --- kinds of cards ---
    {"a model", "g1=8,16,2 g2=8,16,2",
     "cards g1 T4 16 T4 16; cards g2 A100-SXM 40 A100-SXM 40; a ann 50 1,0,1 %A100*", "a>g2"},
    {"a model that is taken", "g1=8,16,2 g2=8,16,1",
     "cards g1 T4 16 T4 16; cards g2 A100 40; a ann 50 1,0,1 %A100; b bob 50 1,0,1 %A100 | -a",
     "a>g2 | b>g2"},
    {"two kinds in one machine", "g1=8,16,4",
     "cards g1 T4 16 A100 40 T4 16 A100 40; a ann 50 1,0,1 %A100; b ann 50 1,0,2 %A100; "
     "c ann 50 1,0,2 %T4",
     "a>g1 c>g1"},
    {"the least memory", "g1=8,16,2 g2=8,16,2",
     "cards g1 A100 40 A100 40; cards g2 A100 80 A100 80; a ann 50 1,0,2 %A100 %80", "a>g2"},
    {"all cards of a kind", "g1=8,16,2 g2=8,16,2",
     "cards g1 T4 16 A100 40; cards g2 A100 40 A100 40; a ann 50 1,0,all %A100", "a>g2"},
    {"a model that no node has", "g1=8,16,2",
     "cards g1 T4 16 T4 16; a ann 50 1,0,1 %H100; b ann 50 1,0,1", "b>g1"},
    {"held only where the head's cards are", "g1=4,16,1 g2=4,16,1",
     "cards g1 A100 40; cards g2 T4 16; a ann 50 1,0,1 %A100 | b ann 50 1,0,1 %A100 | +600; "
     "c ann 50 1; d bob 50 1,0,1",
     "a>g1 | - | d>g2 c>g2"},
    // --- labels ---
    {"a label", "n1=4 n2=4", "label n2 zone b; a ann 50 1 @zone:b", "a>n2"},
    {"a label that no node has", "n1=4", "a ann 50 1 @zone:b; b ann 50 1", "b>n1"},
    {"a label that comes later", "n1=4", "a ann 50 1 @zone:b | label n1 zone b", "- | a>n1"},
    {"not", "n1=4 n2=4", "label n1 zone b; a ann 50 1 @zone:!=b", "a>n2"},
    {"one of several", "n1=4 n2=4 n3=4",
     "label n1 zone a; label n2 zone b; label n3 zone c; a ann 50 1*2 @zone:in_b,_c s", "a>n2,n3"},
    {"glob", "n1=4 n2=4", "label n1 kind cpu-1; label n2 kind gpu-7; a ann 50 1 @kind:gpu-*",
     "a>n2"},
    {"numbers are compared as numbers", "n1=4 n2=4",
     "label n1 cuda 9.5; label n2 cuda 12; a ann 50 1 @cuda:>=_10", "a>n2"},
    {"two labels", "n1=4 n2=4",
     "label n1 zone a; label n2 zone a; label n2 disk ssd; "
     "a ann 50 1 @zone:a @disk:ssd",
     "a>n2"},
    {"a node by its name", "n1=4 n2=4", "a ann 50 1 @node:n2", "a>n2"},
    {"a full label waits, others do not", "n1=4 n2=4",
     "label n2 zone b; a ann 50 4 @zone:b; b ann 50 1 @zone:b; c ann 50 1", "a>n2 c>n1"},
    {"held only where the head's labels are", "n1=4 n2=4",
     "label n1 zone a; a ann 50 3 @zone:a | b ann 50 4 @zone:a | +600; c ann 50 1; d bob 50 4",
     "a>n1 | - | d>n2"},
    // --- modes and ties ---
    {"balanced", "n1=4 n2=8", "a ann 50 1 b; b ann 50 1 b", "a>n2 b>n2"},
    {"compacted", "n1=4 n2=8", "a ann 50 1 c; b ann 50 1 c", "a>n1 b>n1"},
    {"the lowest name", "n3=4 n1=4 n2=4", "a ann 50 1", "a>n1"},
    {"drained nodes get nothing", "n1=4 n2=4", "x n1; a ann 50 1 | o n1; b ann 50 4",
     "a>n2 | b>n1"},
    {"a resumed node is used", "n1=4", "x n1; a ann 50 1 | o n1", "- | a>n1"},
};

START_TEST(hand_worked)
    {
        static struct scene s;
        const struct row *row = &rows[_i];
        scene_begin(&s, row->nodes, &(struct plan_policy){SCENE_HALF_LIFE, true, SCENE_HOLD_AFTER});
        scene_play(&s, row->play);
        ck_assert_msg(strcmp(s.log, row->expected) == 0, "%s\n    got:      %s\n    expected: %s",
                      row->what, s.log, row->expected);
        scene_end_all(&s);
    }
END_TEST

int main(void)
{
    Suite *s = suite_create("cases");
    TCase *t = tcase_create("cases");
    tcase_add_loop_test(t, hand_worked, 0, (int)ARRAY_SIZE(rows));
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
