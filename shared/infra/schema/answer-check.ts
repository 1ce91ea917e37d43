import { Ajv2020 } from 'ajv/dist/2020.js';
import type { FaultDetail } from '../../kernel/errors.ts';
import { faultOf } from './fault-message.ts';

/** More faults than this help nobody to do better. */
const MAX_FAULTS = 20;

/**
 * Checks what a model answered against the whole schema of its task; `[]` = it fits. For our own task schemas, in any
 * part of JSON Schema 2020-12, unlike those in `schemas/`, which bodies are checked by. The compiled check belongs to
 * one ask: a task's schema may name the ids of its own questions, and a kept one would be kept for ever.
 */
export function answerCheck(schema: Readonly<Record<string, unknown>>): (value: unknown) => FaultDetail[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true, verbose: true, messages: false });
  const check = ajv.compile(schema);
  return (value) => {
    if (check(value)) return [];
    return (check.errors ?? []).slice(0, MAX_FAULTS).map((error) => faultOf(error, ''));
  };
}
