import { createHash } from 'node:crypto';
import type { GeneratePayload, GenerationRequest } from '#shared/generated/classifier.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { composed } from '#shared/kernel/text.ts';
import { duplicateIndexes } from './new-job.ts';

/** A generation request with its defaults, before its reference questions are loaded. */
export interface WantedGeneration extends Omit<GeneratePayload, 'references'> {
  /** Sorted; empty unless the mode is `similar`. */
  referenceQuestionIds: string[];
}

const DEFAULT_LANGUAGE = 'vi';

/** The limits of the schema. It measures a text as it came, and some letters, such as those of Bengali with a dot below, grow when composed. */
const LIMITS = { subject: 200, gradeLevel: 64, topic: 500, difficulty: 64, instructions: 4_000 } as const;

/**
 * Returns the faults of a generation request that the schema cannot detect: texts that are too long when composed, and references that
 * are forbidden, missing or duplicate.
 */
export function generationFaults(request: GenerationRequest): FaultDetail[] {
  return [...lengthFaults(request), ...referenceFaults(request)];
}

function lengthFaults(request: GenerationRequest): FaultDetail[] {
  return Object.entries(LIMITS).flatMap(([name, most]) => {
    const { length } = [...plain(String(request[name as keyof typeof LIMITS] ?? ''))];
    return length <= most
      ? []
      : [{ path: `/${name}`, message: `must have at most ${most} characters in Unicode's form NFC` }];
  });
}

function referenceFaults({ mode, referenceQuestionIds: ids = [] }: GenerationRequest): FaultDetail[] {
  const path = '/referenceQuestionIds';
  if (mode !== 'similar') return ids.length === 0 ? [] : [{ path, message: 'only allowed with mode "similar"' }];
  if (ids.length === 0) return [{ path, message: 'must contain one to five question ids' }];
  return duplicateIndexes(ids).map((index) => ({ path: `${path}/${index}`, message: 'duplicate value' }));
}

/** Returns the request with defaults filled in and texts normalized, so that equivalent requests become equal. */
export function wantedGeneration(body: GenerationRequest): WantedGeneration {
  const instructions = plain(body.instructions ?? '');
  return {
    mode: body.mode,
    subject: plain(body.subject),
    gradeLevel: plain(String(body.gradeLevel)),
    topic: plain(body.topic),
    questionType: body.questionType,
    difficulty: plain(body.difficulty),
    count: body.count,
    language: (body.language ?? DEFAULT_LANGUAGE).toLowerCase(),
    instructions: instructions === '' ? null : instructions,
    referenceQuestionIds: [...(body.referenceQuestionIds ?? [])].sort(),
  };
}

/**
 * Returns the key that equal generations of one actor in one organization share: SHA-256 as hex. The order of fields and ids has no
 * effect. Provider and model are not part of it, so switching them never charges a repeated request again.
 */
export function generationKey(wanted: WantedGeneration, scope: { organizationId: string; actorId: string }): string {
  const sorted = Object.entries(wanted).sort(([a], [b]) => (a < b ? -1 : 1));
  const text = JSON.stringify([scope.organizationId, scope.actorId, sorted]);
  return createHash('sha256').update(text).digest('hex');
}

function plain(text: string): string {
  return composed(text).trim();
}
