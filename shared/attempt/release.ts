import { type FaultDetail, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { isJsonObject } from '#shared/kernel/json.ts';
import { parseInstant } from '#shared/kernel/time.ts';
import { type Attempt, isVoided } from './attempt.ts';
import { visibilityForStudent } from './visibility.ts';

const RELEASE_TYPE = 'exam.results_released.v1';
export const RELEASE_SENDER = 'exam-service';
const SCHEMA_VERSION = 1;

/** A release in normal form, read from either of its two styles. */
export interface Release {
  examId: string;
  /** null means the attempts of every organization. */
  organizationId: string | null;
  releasedAt: Date;
  sourceEventId: string;
  /** The only students whose attempts it binds. Absent: all. */
  studentIds?: readonly string[];
}

/** A release with its number among the releases of its exam, in the order of storing. The first has number 1. */
export interface StoredRelease extends Release {
  number: number;
}

/**
 * Reads a release, flat (`examId`, `releasedAt`) or in the analytics style (`entity: Exam`, `entityId`,
 * `occurredAt`, `payload`). An id that appears in several places must be the same in each. `releasedAt` takes precedence over
 * the payload's, which takes precedence over `occurredAt`. Rejects with every fault at once; other fields are dropped.
 */
export function readRelease(body: object): Release | Rejection {
  const event: Fields = { ...body };
  const payload: Fields | null = isJsonObject(event.payload) ? event.payload : null;
  const faults: FaultDetail[] = [];
  const report = (path: string, message: string) => faults.push({ path, message });

  if (event.sourceService !== RELEASE_SENDER) report('/sourceService', `must be ${RELEASE_SENDER}`);
  if (event.type !== RELEASE_TYPE) report('/type', `must be ${RELEASE_TYPE}`);
  const sourceEventId = textAt(event, 'sourceEventId');
  if (sourceEventId === null) report('/sourceEventId', 'is required');
  if (event.payload != null && payload === null) report('/payload', 'must be an object');
  if (payload !== null) {
    if (payload.schemaVersion !== SCHEMA_VERSION) report('/payload/schemaVersion', `must be ${SCHEMA_VERSION}`);
    if (payload.status === 'DRAFT') report('/payload/status', 'must not be DRAFT');
  }
  if ((event.entity != null || event.entityId != null) && event.entity !== 'Exam') report('/entity', 'must be Exam');

  const examId = agreed(
    [
      ['/examId', event.examId],
      ['/entityId', event.entityId],
      ['/payload/examId', payload?.examId],
    ],
    { isRequired: true },
    report,
  );
  const organizationId = agreed(
    [
      ['/organizationId', event.organizationId],
      ['/payload/organizationId', payload?.organizationId],
    ],
    { isRequired: false },
    report,
  );
  const releasedAt = releaseTime(
    [
      ['/releasedAt', event.releasedAt],
      ['/payload/releasedAt', payload?.releasedAt],
      ['/occurredAt', event.occurredAt],
    ],
    report,
  );
  if (faults.length > 0 || examId === null || sourceEventId === null || releasedAt === null) {
    return { rejected: 'VALIDATION_FAILED', details: faults };
  }
  const some = payload?.studentIds;
  const studentIds = Array.isArray(some) ? { studentIds: [...new Set(some as readonly string[])] } : {};
  return { examId, organizationId, releasedAt, sourceEventId, ...studentIds };
}

/** Returns the faults that `readRelease` finds in a body that failed its schema. Places of `known` schema faults are omitted. */
export function releaseFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  if (!isJsonObject(body)) return [];
  const read = readRelease(body);
  const reported = known.map(({ path }) => path);
  const isReported = (path: string) => reported.some((one) => path === one || path.startsWith(`${one}/`));
  return isRejection(read) ? (read.details ?? []).filter(({ path }) => !isReported(path)) : [];
}

/**
 * Returns true if the release binds this attempt, whatever its status. It binds attempts of its exam, organization and students whose start
 * was decided before the release was stored. A later start has read the release's number and keeps the release time of its own
 * snapshot.
 */
export function isBoundBy(
  attempt: Pick<Attempt, 'examId' | 'organizationId' | 'studentId' | 'releasesSeen'>,
  release: StoredRelease,
): boolean {
  if (attempt.examId !== release.examId || release.number <= attempt.releasesSeen) return false;
  if (release.studentIds !== undefined && !namedBy(release.studentIds).has(attempt.studentId)) return false;
  return release.organizationId === null || attempt.organizationId === release.organizationId;
}

/** The students of each release to some, as a set: a walk asks for thousands of attempts. */
const named = new WeakMap<readonly string[], ReadonlySet<string>>();

function namedBy(studentIds: readonly string[]): ReadonlySet<string> {
  const known = named.get(studentIds) ?? new Set(studentIds);
  named.set(studentIds, known);
  return known;
}

/**
 * Returns the release whose time the attempt takes: the first of `releases`, ascending by number, that binds it. Every walk, start
 * and grading chooses by this rule, so two releases at the same time never depend on which of them is faster.
 */
export function bindingRelease(
  attempt: Parameters<typeof isBoundBy>[0],
  releases: readonly StoredRelease[],
): StoredRelease | undefined {
  return releases.find((release) => isBoundBy(attempt, release));
}

/** Returns the attempt with the release's time if it has no time yet. `release` is null if no release binds the attempt. */
export function applyRelease(attempt: Attempt, release: StoredRelease | null): Attempt {
  if (release === null || attempt.exam.resultsReleasedAt !== null) return attempt;
  const exam = { ...attempt.exam, resultsReleasedAt: release.releasedAt };
  return { ...attempt, exam, releaseEventId: release.sourceEventId };
}

/**
 * Returns the changes that a release makes to an attempt that it binds. The release time is set once, even if it is in the
 * future; a later release does not move it. Notices are queued only for a GRADED attempt with a hidden result. Any other
 * attempt that still needs notices queues them when it is graded.
 */
export function releaseEffect(
  attempt: Pick<Attempt, 'status' | 'exam' | 'voidedAt'>,
  now: Date,
): { setsTime: boolean; notifies: boolean } {
  if (attempt.exam.resultsReleasedAt !== null) return { setsTime: false, notifies: false };
  const wasHidden = !visibilityForStudent(attempt, now).resultVisible;
  return { setsTime: true, notifies: attempt.status === 'GRADED' && wasHidden && !isVoided(attempt) };
}

type Fields = Record<string, unknown>;
type ReportFault = (path: string, message: string) => void;

function textAt(fields: Fields, name: string): string | null {
  const value = fields[name];
  return typeof value === 'string' && value !== '' ? value : null;
}

type Candidates = [first: [path: string, value: unknown], ...others: [path: string, value: unknown][]];

/** Returns the text of the first present candidate, or null if it is missing or not a text. Reports candidates that disagree. */
function agreed(candidates: Candidates, { isRequired }: { isRequired: boolean }, report: ReportFault): string | null {
  const present = candidates.filter(([, value]) => value != null);
  if (present.length === 0 && isRequired) report(candidates[0][0], 'is required');
  const [first] = present;
  for (const [path, value] of present) {
    if (typeof value !== 'string' || value === '') report(path, 'must be a non-empty string');
    else if (value !== first?.[1]) report(path, `must equal ${first?.[0]}`);
  }
  return typeof first?.[1] === 'string' ? first[1] : null;
}

/** Returns the first present time, or null if it is missing or invalid. Reports every invalid time. */
function releaseTime(candidates: Candidates, report: ReportFault): Date | null {
  const present = candidates.filter(([, value]) => value != null);
  if (present.length === 0) report(candidates[0][0], 'is required');
  const instants = present.map(([path, value]) => {
    const instant = typeof value === 'string' ? parseInstant(value) : null;
    if (instant === null) report(path, 'must be an RFC 3339 timestamp with a zone');
    return instant;
  });
  return instants[0] ?? null;
}
