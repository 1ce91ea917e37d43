import type { ErrorCatalogue } from './error-facts.ts';

/** Codes of the routes for operators. */
export const OPERATIONS_ERRORS = {
  TRACE_NOT_FOUND: {
    status: 404,
    message: 'Nothing is stored under this id',
    cause: 'No attempt, command, notice, event, notification, job, generation, account or session has the id.',
    remedy: 'Check the id. Retention or an erasure may have deleted the object.',
    retry: 'no',
  },
  EXAM_NOT_FOUND: {
    status: 404,
    message: 'Nothing of this exam is stored',
    cause: 'No attempt and no release of the exam is stored. Exams themselves belong to another service.',
    remedy: 'Check the id. An exam is known from its first start on.',
    retry: 'no',
  },
} as const satisfies ErrorCatalogue;
