import type { ClientSession } from 'mongodb';
import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { activeSubscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { type Attempt, roundOf } from '#shared/attempt/attempt.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { EVENT_ATTEMPTS } from '#shared/kernel/command.ts';
import { type EventMessage, type EventOut, messageOrder } from '#shared/kernel/event-out.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';

/** The content of an event, and the organization by which subscriptions choose. */
type EventFacts = Pick<EventMessage, 'data' | 'attemptId' | 'studentId'> & { organizationId: string | null };

/**
 * Writes the message of an event to each active subscription that wants it, in the commit that ends the command. Each message is a command
 * of its own, so that one receiver that fails delays no other. Nothing is written about an erased student.
 */
export async function publishEvent(
  deps: WorkerDeps,
  { command, session }: Run<'upkeep:publish'>,
): Promise<Outcome<'upkeep:publish'>> {
  const { _id: eventId, body, subject, createdAt } = command;
  const active = await activeSubscriptions(deps.mongo, body.type, session);
  const facts = active.length === 0 ? null : await factsOf(deps, body, session);
  if (facts === null) return { kind: 'done', result: { messages: 0 } };
  const { organizationId, ...content } = facts;
  const wanted = active.filter((one) => one.organizationId === null || one.organizationId === organizationId);
  const now = deps.now();
  const rows = wanted.map(({ _id: subscriptionId }) => {
    const message: EventMessage = { subscriptionId, eventId, type: body.type, createdAt, ...content };
    return newCommand({ ...messageOrder(message, subject), maxAttempts: EVENT_ATTEMPTS, now, posted: wanted.length });
  });
  return {
    kind: 'done',
    result: { messages: rows.length },
    effects: (own) => postCommandsIn(deps.mongo, own, rows),
  };
}

/** Returns the content of an event, or null if its attempt is gone or reopened, or its student erased. */
async function factsOf(deps: WorkerDeps, event: EventOut, session: ClientSession): Promise<EventFacts | null> {
  switch (event.type) {
    case 'results.released': {
      const { examId, organizationId, students = null, releasedAt } = event;
      return { organizationId, data: { examId, organizationId, students, releasedAt: releasedAt.toISOString() } };
    }
    case 'job.completed': {
      const { type: _, ...data } = event;
      return { organizationId: event.organizationId, data };
    }
    default: {
      const attempt = await findAttemptOf(deps.mongo, event, session);
      if (attempt === null || attempt.erasedAt != null || roundOf(attempt) !== roundOf(event)) return null;
      const { _id: attemptId, examId, organizationId, studentId, submittedAt, submittedBy } = attempt;
      const common = { attemptId, examId, organizationId, submittedAt: submittedAt?.toISOString() ?? null };
      const data =
        event.type === 'attempt.submitted'
          ? { ...common, submittedBy: submittedBy ?? null }
          : {
              ...common,
              gradedAt: event.gradedAt.toISOString(),
              resultVisible: event.isVisible,
              score: event.isVisible ? await scoreOf(deps, attempt, event.gradedAt, session) : null,
            };
      return { organizationId, data, attemptId, studentId };
    }
  }
}

/** Returns the score of the first grading, which later grades by hand and regrades do not change. */
async function scoreOf(deps: WorkerDeps, attempt: Attempt, gradedAt: Date, session: ClientSession) {
  const paper = await deps.gradingPaper(attempt, session, gradedAt);
  const { totals, maxScore } = await inPieces(gradeAttempt(paper, attempt.answers));
  return { total: totals.totalScore, max: maxScore, pendingManualCount: totals.pendingManualCount };
}
