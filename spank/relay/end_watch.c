#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "end_watch.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "end_of_time.h"
#include "say.h"
#include "squeue.h"

#define ASK_EVERY_S 60.0
#define ASK_LIMIT_S 20.0
#define CARRY_EVERY_S 5.0
#define CARRY_LIMIT_S 20.0

void end_watch_open(struct end_watch *watch, const struct arguments *arguments, double known_s, mode_t user_umask)
{
	*watch = (struct end_watch){ .known_s = known_s, .asks = arguments->ask_slurm, .carried_s = NAN };
	watch->file.life = arguments->life;
	watch->file.step = arguments->step;
	watch->file.user_umask = user_umask;
	snprintf(watch->job, sizeof(watch->job), "%.*s", (int)strcspn(arguments->life, "-"), arguments->life);
	if (arguments->run != NULL)
		end_watch_take_run(watch, arguments->run);
}

void end_watch_take_run(struct end_watch *watch, const char *run)
{
	snprintf(watch->file.run, sizeof(watch->file.run), "%s", run);
}

void end_watch_close(struct end_watch *watch)
{
	errand_end(&watch->asking);
	errand_end(&watch->carrying);
}

/* Said when it is another one than the last; an empty one only ends the last. */
__attribute__((format(printf, 3, 4))) static void complain(char *last, size_t size, const char *format, ...)
{
	char now[1200];
	va_list rest;

	va_start(rest, format);
	vsnprintf(now, sizeof(now), format, rest);
	va_end(rest);
	now[size - 1 < sizeof(now) - 1 ? size - 1 : sizeof(now) - 1] = '\0';
	if (strcmp(now, last) == 0)
		return;
	snprintf(last, size, "%s", now);
	if (now[0] != '\0')
		say("%s", now);
}

#define COMPLAIN(last, ...) complain(last, sizeof(last), __VA_ARGS__)

static bool take_end(struct end_watch *watch, double end_s)
{
	if (isnan(end_s) || end_s == watch->known_s)
		return false;
	watch->known_s = end_s;
	return true;
}

static bool take_answer(struct end_watch *watch, double wall_s)
{
	const struct errand *asking = &watch->asking;
	enum end_answer answer = END_NO_ANSWER;
	double end_s = NAN;

	if (asking->overdue)
		COMPLAIN(watch->ask_complaint, "squeue did not answer within %.0f s", ASK_LIMIT_S);
	else if (asking->code == SQUEUE_MISSING)
		COMPLAIN(watch->ask_complaint, "there is no squeue on PATH: nobody knows when the job's end is moved");
	else if (asking->code != 0)
		COMPLAIN(watch->ask_complaint, "squeue doesn't say when the job's time is over");
	else
		answer = end_of_squeue(asking->output, &end_s);
	if (answer != END_NO_ANSWER)
		COMPLAIN(watch->ask_complaint, "%s", "");
	return take_end(watch, end_after(watch->known_s, answer, end_s, wall_s));
}

static bool ask(struct end_watch *watch, double now_s, double wall_s)
{
	switch (errand_look(&watch->asking, now_s)) {
	case ERRAND_RUNS:
		return false;
	case ERRAND_CAME_BACK:
		return take_answer(watch, wall_s);
	case ERRAND_NONE:
		break;
	}
	if (now_s < watch->next_ask_s)
		return false;
	watch->next_ask_s = now_s + ASK_EVERY_S;
	if (!errand_start(&watch->asking, squeue_ask, watch->job, now_s, ASK_LIMIT_S))
		COMPLAIN(watch->ask_complaint, "squeue can't be started: %s", strerror(errno));
	return false;
}

/* Of an errand that came back: whether it was done. */
static bool is_done(struct end_watch *watch)
{
	const struct errand *carrying = &watch->carrying;

	switch (carrying->overdue ? END_FILE_FAILED : carrying->code) {
	case END_FILE_DONE:
		COMPLAIN(watch->carry_complaint, "%s", "");
		return true;
	case END_FILE_SAME:
	case END_FILE_ABSENT:
		return false;
	default:
		break;
	}
	if (carrying->overdue)
		COMPLAIN(watch->carry_complaint, "%.1000s did not answer within %.0f s", watch->file.run,
			 CARRY_LIMIT_S);
	else
		COMPLAIN(watch->carry_complaint, "the end of the job's time stays on its node: %.1000s",
			 carrying->output);
	return false;
}

static void start_carrying(struct end_watch *watch, errand_work work, double now_s)
{
	watch->next_carry_s = now_s + CARRY_EVERY_S;
	if (!errand_start(&watch->carrying, work, &watch->file, now_s, CARRY_LIMIT_S))
		COMPLAIN(watch->carry_complaint, "nobody can be sent to %.1000s: %s", watch->file.run, strerror(errno));
}

static void tell_others(struct end_watch *watch, double now_s)
{
	switch (errand_look(&watch->carrying, now_s)) {
	case ERRAND_RUNS:
		return;
	case ERRAND_CAME_BACK:
		if (is_done(watch))
			watch->carried_s = watch->file.end_s; /* as it was when the child began */
		return;
	case ERRAND_NONE:
		break;
	}
	if (watch->file.run[0] == '\0' || isnan(watch->known_s) || watch->known_s == watch->carried_s)
		return;
	if (now_s < watch->next_carry_s)
		return;
	watch->file.end_s = watch->known_s;
	start_carrying(watch, end_file_write, now_s);
}

static bool hear_first_node(struct end_watch *watch, double now_s)
{
	double end_s = NAN;

	switch (errand_look(&watch->carrying, now_s)) {
	case ERRAND_RUNS:
		return false;
	case ERRAND_CAME_BACK:
		return is_done(watch) && end_of_json(end_file_take(&watch->file, watch->carrying.output), &end_s) &&
		       take_end(watch, end_s);
	case ERRAND_NONE:
		break;
	}
	if (watch->file.run[0] != '\0' && now_s >= watch->next_carry_s)
		start_carrying(watch, end_file_read, now_s);
	return false;
}

bool end_watch_look(struct end_watch *watch, double now_s, double wall_s)
{
	bool moved;

	if (!watch->asks)
		return hear_first_node(watch, now_s);
	moved = ask(watch, now_s, wall_s);
	tell_others(watch, now_s);
	return moved;
}
