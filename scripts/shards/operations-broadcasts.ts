import { type Broadcast, broadcasts } from './judge.ts';

const FOLDER = 'shared/infra/mongo/operations';
const ONE_TRACE = 'one for each trace that an operator reads';

/**
 * Statements of `examhall trace` and `GET /v1/ops/trace` that go to every shard. An operator names an object by one id, and neither its
 * student nor its account is known then.
 */
export const OPERATIONS_BROADCASTS: readonly Broadcast[] = [
  ...broadcasts(
    {
      why: 'a trace finds commands and notices by their attempt, exam, job or account, whatever their keys are',
      rate: 'two for each trace that an operator reads, three for that of a user',
      files: [`${FOLDER}/reading.ts`],
    },
    ['commands find {subject $in}', 'attempt_notices find {subject $in}'],
  ),
  ...broadcasts(
    {
      why: 'an operator names an attempt by its id, or all attempts of an exam',
      rate: ONE_TRACE,
      files: [`${FOLDER}/attempt-lines.ts`],
    },
    ['attempts find {_id}', 'attempts find {examId, status}', 'attempts find {examId}'],
  ),
  ...broadcasts(
    {
      why: 'an id names no account and no user',
      rate: 'one for each trace of an id that no earlier kind has',
      files: [`${FOLDER}/trace.ts`],
    },
    ['auth_sessions find {_id}', 'notification_delivery_attempts find {_id}'],
  ),
  ...broadcasts(
    {
      why: 'an operator names a notification by its id, and the rows of an event belong to many users',
      rate: ONE_TRACE,
      files: [`${FOLDER}/notification-lines.ts`],
    },
    ['notifications find {_id}', 'notifications find {fanOutId $in}', 'notification_deliveries find {subject $in}'],
  ),
  ...broadcasts(
    {
      why: 'an operator names a generation by its id or its actor',
      rate: ONE_TRACE,
      files: [`${FOLDER}/classifier-lines.ts`],
    },
    ['ai_generations find {_id}', 'ai_generations find {actor.id}'],
  ),
];
