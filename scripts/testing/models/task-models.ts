import { openTaskModels, type PerformParts } from '#infra/models/perform-task.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import type { Models } from '#shared/classifier/tasks/envelope.ts';
import type { Now } from '#shared/kernel/time.ts';

/** Returns task models of a process to which no cancellation is announced. */
export function taskModels(ask: PerformParts['ask'], now: Now = Date.now): Models {
  return openTaskModels({ ask, listen: () => () => undefined, schemas: loadSchemas(), now });
}
