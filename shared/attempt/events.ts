import type { Rejection } from '#shared/kernel/errors.ts';
import type { AttemptEvent, EventType, SubmitSource } from './attempt.ts';
import { MAX_CLIENT_EVENTS, MAX_METADATA_BYTES } from './limits.ts';

/** `seq` is the attempt's `eventSeq` after this event. */
export function attemptEvent(seq: number, type: EventType, metadata: object, createdAt: Date): AttemptEvent {
  return { seq, type, metadata: JSON.stringify(metadata), createdAt };
}

export function startMetadata(start: { accessLinkId: string | null; idempotencyHeader: string }) {
  return { created: true, accessLinkId: start.accessLinkId, idempotencyHeader: start.idempotencyHeader };
}

export function saveAnswerMetadata(save: {
  questionId: string;
  serverVersion: number;
  clientVersion: number;
  sourceTabId: string | null;
}) {
  const { questionId, serverVersion, clientVersion, sourceTabId } = save;
  return { questionId, serverVersion, clientVersion, sourceTabId };
}

/** Of SUBMIT and TIMEOUT, written with the grade. `remainingSeconds` is what was left when the attempt was handed in. */
export function submitMetadata(submit: { source: SubmitSource; totalScore: number; remainingSeconds: number | null }) {
  const { source, totalScore, remainingSeconds } = submit;
  return { source, totalScore, remainingSeconds };
}

/** The event that a submit of this source leaves. */
export function submitEventType(source: SubmitSource): EventType {
  return source === 'TIMEOUT' ? 'TIMEOUT' : 'SUBMIT';
}

/** May a client add this event? A TIMEOUT that submits does not ask: it is never limited. */
export function admitClientEvent(attempt: { clientEvents: number }, metadata: object): Rejection | null {
  if (Buffer.byteLength(JSON.stringify(metadata)) > MAX_METADATA_BYTES) {
    const details = [{ path: '/metadata', message: `must be at most ${MAX_METADATA_BYTES} bytes as JSON` }];
    return { rejected: 'VALIDATION_FAILED', details };
  }
  return attempt.clientEvents >= MAX_CLIENT_EVENTS ? { rejected: 'EVENT_LIMIT_REACHED' } : null;
}

/** Fields that give a grade away, by the type of the event that carries them. */
const GRADE_FIELDS: Readonly<Partial<Record<EventType, readonly string[]>>> = {
  SUBMIT: ['totalScore'],
  TIMEOUT: ['totalScore'],
  ESSAY_GRADE_HANDOFF: ['score', 'feedback', 'criteria'],
};

/** The metadata as a reader may see it: while grades are hidden, what gives one away is null. */
export function visibleMetadata(event: AttemptEvent, showsGrades: boolean): Record<string, unknown> {
  const metadata: Record<string, unknown> = JSON.parse(event.metadata);
  if (showsGrades) return metadata;
  for (const field of GRADE_FIELDS[event.type] ?? []) if (Object.hasOwn(metadata, field)) metadata[field] = null;
  return metadata;
}
