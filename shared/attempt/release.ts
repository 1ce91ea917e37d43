import { type FaultDetail, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { isJsonObject } from '#shared/kernel/json-object.ts';
import { parseInstant } from '#shared/kernel/time.ts';
import type { Attempt } from './attempt.ts';
import { visibilityForStudent } from './visibility.ts';

const RELEASE_TYPE = 'exam.results_released.v1';
export const RELEASE_SENDER = 'exam-service';
const SCHEMA_VERSION = 1;

/** What a release says, whichever of its two styles it came in. */
export interface Release {
  examId: string;
  /** null = attempts of every organization. */
  organizationId: string | null;
  releasedAt: Date;
  sourceEventId: string;
}

/**
 * Reads a release, flat (`examId`, `releasedAt`) or in the analytics style (`entity: Exam`, `entityId`,
 * `occurredAt`, `payload`). The same thing said twice must be said alike. Every fault at once; fields that are not
 * read here are dropped. `releasedAt` wins over the payload's, and that over `occurredAt`.
 */
export function readRelease(body: object): Release | Rejection {
  const event: Fields = { ...body };
  const payload: Fields | null = isJsonObject(event.payload) ? event.payload : null;
  const faults: FaultDetail[] = [];
  const say = (path: string, message: string) => faults.push({ path, message });

  if (event.sourceService !== RELEASE_SENDER) say('/sourceService', `must be ${RELEASE_SENDER}`);
  if (event.type !== RELEASE_TYPE) say('/type', `must be ${RELEASE_TYPE}`);
  const sourceEventId = textAt(event, 'sourceEventId');
  if (sourceEventId === null) say('/sourceEventId', 'is required');
  if (event.payload != null && payload === null) say('/payload', 'must be an object');
  if (payload !== null) {
    if (payload.schemaVersion !== SCHEMA_VERSION) say('/payload/schemaVersion', `must be ${SCHEMA_VERSION}`);
    if (payload.status === 'DRAFT') say('/payload/status', 'must not be DRAFT');
  }
  if ((event.entity != null || event.entityId != null) && event.entity !== 'Exam') say('/entity', 'must be Exam');

  const examId = agreed(
    [
      ['/examId', event.examId],
      ['/entityId', event.entityId],
      ['/payload/examId', payload?.examId],
    ],
    { isRequired: true },
    say,
  );
  const organizationId = agreed(
    [
      ['/organizationId', event.organizationId],
      ['/payload/organizationId', payload?.organizationId],
    ],
    { isRequired: false },
    say,
  );
  const releasedAt = releaseTime(
    [
      ['/releasedAt', event.releasedAt],
      ['/payload/releasedAt', payload?.releasedAt],
      ['/occurredAt', event.occurredAt],
    ],
    say,
  );
  if (faults.length > 0 || examId === null || sourceEventId === null || releasedAt === null) {
    return { rejected: 'VALIDATION_FAILED', details: faults };
  }
  return { examId, organizationId, releasedAt, sourceEventId };
}

/** What `readRelease` has against a body that is refused already, beside the `known` faults of its shape. */
export function releaseFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  if (!isJsonObject(body)) return [];
  const read = readRelease(body);
  const told = known.map(({ path }) => path);
  const isTold = (path: string) => told.some((one) => path === one || path.startsWith(`${one}/`));
  return isRejection(read) ? (read.details ?? []).filter(({ path }) => !isTold(path)) : [];
}

/** Is this attempt one of those a release is about? Its status does not matter. */
export function isReleased(attempt: Pick<Attempt, 'examId' | 'organizationId'>, release: Release): boolean {
  if (attempt.examId !== release.examId) return false;
  return release.organizationId === null || attempt.organizationId === release.organizationId;
}

/**
 * What a release changes on one attempt it is about. The time is set once. Only an attempt that is GRADED and was
 * hidden until now has a result that becomes visible, so only that one queues notices here; one in progress or
 * being graded queues its own when it is graded.
 */
export function releaseEffect(
  attempt: Pick<Attempt, 'status' | 'exam'>,
  now: Date,
): { setsTime: boolean; notifies: boolean } {
  if (attempt.exam.resultsReleasedAt !== null) return { setsTime: false, notifies: false };
  const wasHidden = !visibilityForStudent(attempt, now).resultVisible;
  return { setsTime: true, notifies: attempt.status === 'GRADED' && wasHidden };
}

type Fields = Record<string, unknown>;
type Say = (path: string, message: string) => void;

function textAt(fields: Fields, name: string): string | null {
  const value = fields[name];
  return typeof value === 'string' && value !== '' ? value : null;
}

type Places = [first: [path: string, value: unknown], ...others: [path: string, value: unknown][]];

/** The one text that all present places agree on; null when there is none or they are at fault. */
function agreed(places: Places, { isRequired }: { isRequired: boolean }, say: Say): string | null {
  const present = places.filter(([, value]) => value != null);
  if (present.length === 0 && isRequired) say(places[0][0], 'is required');
  const [first] = present;
  for (const [path, value] of present) {
    if (typeof value !== 'string' || value === '') say(path, 'must be a text that is not empty');
    else if (value !== first?.[1]) say(path, `disagrees with ${first?.[0]}`);
  }
  return typeof first?.[1] === 'string' ? first[1] : null;
}

/** The first of the present times; each of them has to be one. */
function releaseTime(places: Places, say: Say): Date | null {
  const present = places.filter(([, value]) => value != null);
  if (present.length === 0) say(places[0][0], 'is required');
  const instants = present.map(([path, value]) => {
    const instant = typeof value === 'string' ? parseInstant(value) : null;
    if (instant === null) say(path, 'must be an RFC 3339 timestamp with a zone');
    return instant;
  });
  return instants[0] ?? null;
}
