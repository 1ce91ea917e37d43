import { Ajv2020 } from 'ajv/dist/2020.js';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { faultOf } from './fault-message.ts';

/** What an answer has against itself; `[]` = it fits. */
export type AnswerCheck = (value: unknown) => FaultDetail[];

/** More faults than this help nobody to do better. */
const MAX_ANSWER_FAULTS = 20;
/** A schema that names ids of its own is not seen again: it goes with the oldest. */
const KEPT = 100;

/**
 * Checks of what models answer against the whole schema of their task. For our own task schemas, in any part of JSON Schema
 * 2020-12, unlike those in `schemas/`, which bodies are checked by. Compiling one takes longer than everything else of an ask that is ours:
 * the newest are kept.
 */
export function openAnswerChecks(): (schema: Readonly<Record<string, unknown>>) => AnswerCheck {
  const kept = new Map<string, AnswerCheck>();
  return (schema) => {
    const text = JSON.stringify(schema);
    const known = kept.get(text);
    if (known !== undefined) return known;
    const check = compiled(schema);
    kept.set(text, check);
    const [oldest] = kept.keys();
    if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
    return check;
  };
}

/** By an ajv of its own: what one has compiled it never forgets. */
function compiled(schema: Readonly<Record<string, unknown>>): AnswerCheck {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true, verbose: true, messages: false });
  const check = ajv.compile(schema);
  return (value) => {
    if (check(value)) return [];
    return (check.errors ?? []).slice(0, MAX_ANSWER_FAULTS).map((error) => faultOf(error, ''));
  };
}
