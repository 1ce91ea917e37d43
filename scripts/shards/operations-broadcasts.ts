import { type Broadcast, broadcasts } from './judge.ts';

const FOLDER = 'shared/infra/mongo/operations';

/**
 * Statements of `examhall trace` and `GET /v1/ops/trace` that go to every shard. An operator names an object by one id, and neither its
 * student nor its account is known then.
 */
export const OPERATIONS_BROADCASTS: readonly Broadcast[] = [
  ...broadcasts(
    {
      why: 'a trace finds commands and notices by their attempt, exam, job or account, whatever their keys are',
      rate: 'two for each trace, and three for the trace of a user',
      files: [`${FOLDER}/reading.ts`],
    },
    ['commands find {subject $in}', 'attempt_notices find {subject $in}'],
  ),
  ...broadcasts(
    {
      why: 'an exam has attempts of any student',
      rate: 'one for each trace of an exam, or two',
      files: [`${FOLDER}/attempt-lines.ts`],
    },
    ['attempts find {examId, status}', 'attempts find {examId}'],
  ),
  ...broadcasts(
    {
      why: 'an id names no account and no user',
      rate: 'one for each trace of an id of no earlier kind',
      files: [`${FOLDER}/trace.ts`],
    },
    ['auth_sessions find {_id}', 'notification_delivery_attempts find {_id}'],
  ),
  ...broadcasts(
    {
      why: 'the rows of an event belong to many users',
      rate: 'one for each trace that meets an event',
      files: [`${FOLDER}/notification-lines.ts`],
    },
    ['notifications find {fanOutId $in}'],
  ),
];
