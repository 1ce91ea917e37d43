import type { AttemptDeps } from '#api/attempt/deps.ts';
import { idempotencyKey } from '#api/http/guards/idempotency-key.ts';
import { ESSAY_BODY, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { EXAMINER } from './examiner.ts';
import {
  applyRegrade,
  createRegrade,
  discardRegrade,
  downloadRegradeRows,
  readRegrade,
  readRegradeRows,
  readRegrades,
} from './regrades.ts';

const EXAM = { examId: 'Id of the exam' };
const REGRADE = { ...EXAM, regradeId: 'Id of the regrade' };

/** Returns the routes of regrades: a preview, what it changes, and its end. `late` documents the reply to an act that goes on. */
export function regradeRoutes(deps: AttemptDeps, { tag, late }: { tag: Tag; late: Route['replies'][number] }): Route[] {
  const acting = [...EXAMINER, idempotencyKey()];
  const moving = {
    method: 'POST',
    params: REGRADE,
    tag,
    guards: acting,
    body: { schema: 'exam-room/reasoned-request', maxBytes: SMALL_BODY },
    replies: [
      { status: 200, schema: 'exam-room/regrade-reply', description: 'Regrade in its new state' },
      { ...late, exampleOf: 'giveExtraTime' },
    ],
    errors: ['EXAM_NOT_FOUND', 'REGRADE_NOT_FOUND', 'REGRADE_STATE_CONFLICT', 'FORBIDDEN'],
  } satisfies Partial<Route>;

  return [
    {
      method: 'POST',
      path: '/v1/exams/:examId/regrades',
      params: EXAM,
      operation: 'createRegrade',
      summary: 'Preview a regrade of an exam: who changes, and by how much',
      description:
        'Computes the grades that a corrected key, another rule or an award would make, and changes nothing. Read the regrade until `state` is `PREVIEW`, then its rows, and apply or discard it within 30 days. A repeat with the same key returns the first regrade.',
      tag,
      guards: acting,
      body: { schema: 'exam-room/regrade-request', maxBytes: ESSAY_BODY },
      replies: [
        { status: 201, schema: 'exam-room/regrade-reply', description: 'New regrade, previewed or previewing' },
      ],
      errors: ['EXAM_NOT_FOUND', 'QUESTION_NOT_IN_EXAM'],
      handle: (call) => createRegrade(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/exams/:examId/regrades',
      params: EXAM,
      operation: 'listRegrades',
      summary: 'List the regrades of an exam',
      description: 'Returns previews of the last 30 days and all applied regrades, newest first.',
      tag,
      guards: EXAMINER,
      query: 'exam-room/regrade-list-query',
      replies: [{ status: 200, schema: 'exam-room/regrade-list', description: 'Page of regrades' }],
      errors: ['EXAM_NOT_FOUND', 'REGRADE_NOT_FOUND'],
      handle: (call) => readRegrades(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/exams/:examId/regrades/:regradeId',
      params: REGRADE,
      operation: 'readRegrade',
      summary: 'Get a regrade with its counts',
      description: 'Returns the changes of the regrade and how many attempts they concern.',
      tag,
      guards: EXAMINER,
      replies: [{ status: 200, schema: 'exam-room/regrade-reply', description: 'Regrade' }],
      errors: ['EXAM_NOT_FOUND', 'REGRADE_NOT_FOUND'],
      handle: (call) => readRegrade(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/exams/:examId/regrades/:regradeId/rows',
      params: REGRADE,
      operation: 'listRegradeRows',
      summary: 'List the attempts that a regrade changes',
      description:
        'Returns each attempt of which a score changes, with its totals and scores before and after, as the preview has found them. A teacher gets the attempts that the teacher examines.',
      tag,
      guards: EXAMINER,
      query: 'exam-room/regrade-rows-query',
      replies: [{ status: 200, schema: 'exam-room/regrade-rows', description: 'Page of attempts' }],
      errors: ['EXAM_NOT_FOUND', 'REGRADE_NOT_FOUND'],
      handle: (call) => readRegradeRows(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/exams/:examId/regrades/:regradeId/rows.csv',
      params: REGRADE,
      operation: 'downloadRegradeRows',
      summary: 'Download the attempts that a regrade changes as CSV',
      description: 'Streams the rows of the regrade for a spreadsheet, with two columns for each changed question.',
      tag,
      guards: EXAMINER,
      query: 'exam-room/csv-query',
      replies: [{ status: 200, schema: 'exam-room/regrade-rows-file', description: 'CSV file, without envelope' }],
      errors: ['EXAM_NOT_FOUND', 'REGRADE_NOT_FOUND'],
      handle: (call) => downloadRegradeRows(deps, call),
    },
    {
      ...moving,
      path: '/v1/exams/:examId/regrades/:regradeId/apply',
      operation: 'applyRegrade',
      summary: 'Apply a regrade that was previewed',
      description:
        'Grades every attempt that holds a changed question anew, from what is stored now. Attempts that are not graded yet take the changes at their grading; attempts that start later have the key of their own start. A changed result that its student can see is announced once. An applied regrade stays as it is. After 202 read the act.',
      handle: (call) => applyRegrade(deps, call),
    },
    {
      ...moving,
      path: '/v1/exams/:examId/regrades/:regradeId/discard',
      operation: 'discardRegrade',
      summary: 'Discard a regrade that was previewed',
      description:
        'Ends a preview without any change. A repeat with the same key returns the discarded regrade. After 202 read the act.',
      handle: (call) => discardRegrade(deps, call),
    },
  ];
}
