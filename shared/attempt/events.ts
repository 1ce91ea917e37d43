import type { Rejection } from '#shared/kernel/errors.ts';
import { JsonPart } from '#shared/kernel/json.ts';
import type { AttemptEvent, EventType, SubmitSource } from './attempt.ts';
import { MAX_METADATA_BYTES } from './limits.ts';

/** Returns an event with its metadata as JSON text. `seq` is the attempt's `eventSeq` after this event. */
export function attemptEvent(seq: number, type: EventType, metadata: object, createdAt: Date): AttemptEvent {
  return { seq, type, metadata: JSON.stringify(metadata), createdAt };
}

/** Returns the metadata of a START event. */
export function startMetadata(start: { accessLinkId: string | null; idempotencyHeader: string }) {
  return { created: true, accessLinkId: start.accessLinkId, idempotencyHeader: start.idempotencyHeader };
}

/** Returns the metadata of a SAVE_ANSWER event. It contains no answer. */
export function saveAnswerMetadata(save: {
  questionId: string;
  serverVersion: number;
  clientVersion: number;
  sourceTabId: string | null;
}) {
  const { questionId, serverVersion, clientVersion, sourceTabId } = save;
  return { questionId, serverVersion, clientVersion, sourceTabId };
}

/** The act of an examiner, as the events of its attempts name it. */
export interface StatedAct {
  actId: string;
  by: string;
  /** Absent in the grading of an attempt whose student was erased since. */
  reason?: string | undefined;
}

/**
 * Returns the metadata of a SUBMIT or TIMEOUT event, which is written with the grade. `remainingSeconds` is the time left at the
 * submit; `client` is the metadata of the client's TIMEOUT event, as JSON text. `by` and `reason` of an act are for examiners alone.
 */
export function submitMetadata(submit: {
  source: SubmitSource;
  totalScore: number | null;
  remainingSeconds: number | null;
  client?: string | undefined;
  act?: StatedAct | undefined;
}) {
  const { source, totalScore, remainingSeconds, client, act } = submit;
  const ofClient = client === undefined ? {} : { client: JSON.parse(client) };
  return { source, totalScore, remainingSeconds, ...ofClient, ...act };
}

/** Returns the type of the event that records a submit from this source. */
export function submitEventType(source: SubmitSource): EventType {
  return source === 'TIMEOUT' ? 'TIMEOUT' : 'SUBMIT';
}

/** Returns the fault of metadata that is longer than MAX_METADATA_BYTES as JSON, or null. */
export function metadataFault(metadata: object): Rejection | null {
  if (Buffer.byteLength(JSON.stringify(metadata)) <= MAX_METADATA_BYTES) return null;
  const details = [{ path: '/metadata', message: `must be at most ${MAX_METADATA_BYTES} bytes as JSON` }];
  return { rejected: 'VALIDATION_FAILED', details };
}

/** Metadata fields that reveal a grade, by event type. */
const GRADE_FIELDS: Readonly<Partial<Record<EventType, readonly string[]>>> = {
  SUBMIT: ['totalScore'],
  TIMEOUT: ['totalScore'],
  REGRADED: ['totalScore'],
  ESSAY_GRADE_HANDOFF: ['score', 'feedback', 'criteria'],
};

/** Metadata fields that only examiners see, by event type: who acted, and why. */
const EXAMINER_FIELDS: Readonly<Partial<Record<EventType, readonly string[]>>> = {
  SUBMIT: ['by', 'reason'],
  TIME_EXTENDED: ['by', 'reason'],
  REOPENED: ['by', 'reason'],
  VOIDED: ['by', 'reason'],
  RESTORED: ['by', 'reason'],
  REGRADED: ['by', 'reason'],
};

/** Returns the metadata for a reply: its stored text, unless a field is hidden. */
export function metadataForReply(
  event: AttemptEvent,
  showsGrades: boolean,
  forExaminer: boolean,
): JsonPart | Record<string, unknown> {
  const hidesGrades = !showsGrades && GRADE_FIELDS[event.type] !== undefined;
  const hidesActs = !forExaminer && EXAMINER_FIELDS[event.type] !== undefined;
  return hidesGrades || hidesActs ? visibleMetadata(event, showsGrades, forExaminer) : new JsonPart(event.metadata);
}

/** Returns the metadata for a reader. While grades are hidden, fields that reveal a grade are null; fields for examiners are left out. */
export function visibleMetadata(
  event: AttemptEvent,
  showsGrades: boolean,
  forExaminer = false,
): Record<string, unknown> {
  const metadata: Record<string, unknown> = JSON.parse(event.metadata);
  if (!forExaminer) for (const field of EXAMINER_FIELDS[event.type] ?? []) delete metadata[field];
  if (showsGrades) return metadata;
  for (const field of GRADE_FIELDS[event.type] ?? []) if (Object.hasOwn(metadata, field)) metadata[field] = null;
  return metadata;
}
