import { type Broadcast, broadcasts } from './judge.ts';

const FOLDER = 'shared/infra/mongo/operations';
const ONE_TRACE = 'one for each trace that an operator reads';

const ONE_PAGE = 'one for each page that an operator reads, or that a console refreshes';

const CHECKED = {
  why: 'a check of the promises reads the newest rows, or those that wait, of every shard',
  rate: 'one or two for each run of `examhall doctor`',
};

/**
 * Statements of `examhall trace`, `exam` and `doctor` and of the routes below `/v1/ops` that go to every shard. An operator names an object or
 * an exam by one id, and neither its student nor its account is known then.
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
      why: 'the commands that a request has caused have many keys',
      rate: 'three for each trace of an id that no earlier kind has',
      files: [`${FOLDER}/reading.ts`],
    },
    [
      'commands find {cause.requestId}',
      'attempt_notices find {cause.requestId}',
      'notification_deliveries find {cause.requestId}',
    ],
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
  ...broadcasts(
    {
      why: 'the attempts of an exam belong to many students; a walk over one student names the student',
      rate: ONE_PAGE,
      files: [`${FOLDER}/exam-attempts.ts`],
    },
    [
      'attempts find {examId}',
      'attempts find {_id $gt, examId}',
      'attempts find {examId, status}',
      'attempts find {_id $gt, examId, status}',
    ],
  ),
  ...broadcasts(
    {
      why: 'the attempts and notices of an exam belong to many students',
      rate: ONE_PAGE,
      files: [`${FOLDER}/exam.ts`],
    },
    [
      'attempts find {examId}',
      'attempts aggregate {examId}',
      'attempt_notices aggregate {body.examId, status}',
      'attempt_notices aggregate {body.examId, letter $in, status}',
    ],
  ),
  ...broadcasts({ ...CHECKED, files: [`${FOLDER}/invariants/attempts.ts`] }, [
    'attempts find {status}',
    'attempts find {erasedAt, status}',
    'attempts find {exam.resultsReleasedAt, examId}',
    'attempt_releases find {}',
  ]),
  ...broadcasts({ ...CHECKED, files: [`${FOLDER}/invariants/commands.ts`] }, [
    'commands find {queue, status}',
    'commands find {status}',
    'attempt_notices find {queue, status}',
    'attempt_notices find {status}',
    'notification_deliveries find {queue, status}',
    'notification_deliveries find {status}',
  ]),
  ...broadcasts({ ...CHECKED, files: [`${FOLDER}/invariants/classifier.ts`] }, [
    'ai_generations find {}',
    'ai_generations find {_id $in}',
    'ai_generation_holds find {}',
  ]),
  ...broadcasts(
    {
      why: 'a check compares the channels of the newest notifications, which belong to many users',
      rate: 'a few for each run of `examhall doctor`',
      files: [`${FOLDER}/invariants/notifications.ts`],
    },
    ['notifications find {place}', 'notification_deliveries find {subject $in}'],
  ),
];
