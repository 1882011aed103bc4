// SPDX-License-Identifier: Apache-2.0
// Submits N held jobs by Slurm's C library, one after the other: submit N. Prints the seconds.
// Built and run by test/bench/slurm.py.
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static char path[] = "PATH=/usr/bin:/bin";
    char *environment[] = {path, NULL};
    int n = argc > 1 ? atoi(argv[1]) : 1;
    double began = now();
    slurm_init(NULL);
    for (int i = 0; i < n; i++) {
        job_desc_msg_t job;
        submit_response_msg_t *answer = NULL;
        slurm_init_job_desc_msg(&job);
        job.name = "bench";
        job.script = "#!/bin/sh\ntrue\n";
        job.environment = environment;
        job.env_size = 1;
        job.user_id = getuid();
        job.group_id = getgid();
        job.min_nodes = job.max_nodes = 1;
        job.num_tasks = 1;
        job.priority = 0; // held
        job.work_dir = "/tmp";
        job.std_out = job.std_err = "/dev/null";
        if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS) {
            slurm_perror("submit");
            return 1;
        }
        slurm_free_submit_response_response_msg(answer);
    }
    (void)printf("%f\n", now() - began);
    return 0;
}
