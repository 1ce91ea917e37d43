import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { submitIn } from '#infra/mongo/attempt/submit.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { isErasedAttempt } from '#shared/attempt/erased.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { audited } from './audit.ts';

/** The attempt of an act, and the grounds of its line in the audit. */
interface Subject {
  attempt: Attempt;
  by: Examiner;
  reason: string;
}

/** Returns the attempt of an act. The attempt of an erased student takes no act. */
async function subjectOf(deps: WorkerDeps, { command, session }: Run<'examroom'>): Promise<Subject | Rejection> {
  const { body } = command;
  if (!('attemptId' in body)) throw new Error(`act ${command._id} is about no attempt`);
  const attempt = await findAttemptOf(deps.mongo, body, session);
  if (attempt === null || isErasedAttempt(attempt)) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return { attempt, by: body.by, reason: body.statedReason ?? '' };
}

/** Submits an open attempt as of now. One that is submitted already is what the act wants. */
export async function handIn(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const subject = await subjectOf(deps, run);
  if (isRejection(subject)) return { kind: 'rejected', result: subject };
  const { attempt } = subject;
  const result = { attemptId: attempt._id };
  if (attempt.status !== 'IN_PROGRESS') return { kind: 'done', result };

  const isWanted = await deps.wanted.wants('attempt.submitted');
  const terms = { source: 'TEACHER', overdueByMs: null, maxAttempts: deps.config.worker.maxAttempts } as const;
  let grading: CommandRef | undefined;
  return {
    kind: 'done',
    result,
    ...audited(
      deps,
      subject,
      { action: 'attempt.submit', subject: attempt._id, detail: { examId: attempt.examId } },
      {
        async changes(commit) {
          const submitted = await submitIn(deps.mongo, { attempt, ...terms, now: deps.now(), isWanted }, commit);
          if (submitted.kind !== 'submitted') throw new Stale(`attempt ${attempt._id}`);
          grading = submitted.command;
        },
        rings: () => grading !== undefined && deps.ring(grading),
      },
    ),
  };
}
