import { randomBytes } from 'node:crypto';
import type { Call, TextReply } from '#api/route.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { addStartKey, type EarlierAttempt } from '#infra/mongo/attempt/earlier-attempts.ts';
import { extendDeadline } from '#infra/mongo/attempt/extra-time.ts';
import { type SeatNeed, seatFacts, withdrawAttempt } from '#infra/mongo/attempt/insert-attempt.ts';
import type { IdentifiedPaper } from '#infra/mongo/attempt/papers.ts';
import { releaseOne } from '#infra/mongo/attempt/release.ts';
import type { StartFacts } from '#infra/mongo/attempt/start-facts.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { UNKNOWN_FIELD } from '#infra/schema/segment.ts';
import { type Attempt, type AttemptKey, type CourseContext, isOver, isVoided } from '#shared/attempt/attempt.ts';
import { missedGrants, type TimeGrant, withGrantedTime } from '#shared/attempt/extra-time.ts';
import { MAX_START_BYTES, MAX_START_KEY_ALIASES, SAVE_REPLY_EVENTS } from '#shared/attempt/limits.ts';
import { newAttempt } from '#shared/attempt/new-attempt.ts';
import { applyRelease } from '#shared/attempt/release.ts';
import { admitStart, bindStart, planStart, refuseOpenAttempt, type StartPlan } from '#shared/attempt/start-rules.ts';
import type { StartRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { escapePointer } from '#shared/kernel/json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { LAST_INSTANT } from '#shared/kernel/time.ts';
import { type AttemptDeps, detailText, viewerOf } from './deps.ts';
import { submitOverdue } from './submit.ts';

/** A start request that passed every rule that needs no database read. */
interface StartIntent {
  examId: string;
  studentId: string;
  key: string;
  header: string;
  body: StartRequest;
  paper: IdentifiedPaper;
  courseContext: CourseContext | null;
}

/** Passes of reading and writing before a start that keeps losing races gets 503. Each pass reads what the winner wrote. */
const MAX_PASSES = 20;

/**
 * Starts an attempt, or returns the one that this key or this student already has. Unique indexes enforce the counts that
 * the rules have checked, so a concurrent start cannot break them. A start that loses a race reads again and repeats every
 * rule: it gets the winner's attempt only if rules 4–8 and 10 admit it.
 */
export async function startAttempt(deps: AttemptDeps, call: Call<StartRequest>): Promise<TextReply | Rejection> {
  const intent = await inPieces(intentOf(deps, call));
  if (isRejection(intent)) return intent;
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const seen = await seenBefore(deps, intent);
    const { earlier } = seen;
    const replayed = earlier.find((attempt) => attempt.startKeys.includes(intent.key));
    if (replayed !== undefined) {
      const end = await existing(deps, call, replayed, { granted: seen.granted, replayed: true });
      if (end.kind === 'answered') return end.answer;
      continue;
    }
    const now = new Date(deps.now());
    const plan = planStart(intent.body, now);
    if (isRejection(plan)) return explained(plan, call);
    const open = earlier.find((attempt) => attempt.status === 'IN_PROGRESS');
    if (open !== undefined && isOver(open.deadlineAt, now)) {
      // Its student closed the tab. Until the sweep submits it, the dead attempt would take the place of the next one.
      await submitOverdue(deps, open);
      continue;
    }
    const end =
      open === undefined
        ? await begin(deps, call, intent, { plan, seen, now })
        : await reuse(deps, call, intent, { plan, open, granted: seen.granted });
    if (end.kind === 'answered') return end.answer;
  }
  return { rejected: 'UNAVAILABLE', retryAfter: 1 };
}

/** The reads on which a pass decides. The attempt is bound by the first release after the newest one that it has seen. */
interface Seen extends StartFacts {
  earlier: readonly EarlierAttempt[];
}

/** Reads side by side what a new attempt depends on: one wait less for each student of a class that begins. */
async function seenBefore({ starts }: AttemptDeps, intent: StartIntent): Promise<Seen> {
  const [earlier, facts] = await Promise.all([starts.earlier(intent), starts.facts(intent)]);
  return { earlier, ...facts };
}

/** Names the unknown fields of `access` to a sender whose student has no access: one of them may be the decision, misspelled. */
function explained(refusal: Rejection, { dropped = [] }: Pick<Call, 'dropped'>): Rejection {
  if (refusal.rejected !== 'EXAM_ACCESS_DENIED' && refusal.rejected !== 'EXAM_PASSWORD_REQUIRED') return refusal;
  const unknown = dropped.filter(({ path, name }) => path === `/access/${escapePointer(name)}`);
  if (unknown.length === 0) return refusal;
  return { ...refusal, details: unknown.map(({ path }) => ({ path, message: UNKNOWN_FIELD })) };
}

/** `raced`: a concurrent start changed what this one had read, so the next pass reads everything again. */
type StartEnd = { kind: 'answered'; answer: TextReply | Rejection } | { kind: 'raced' };

function answered(answer: TextReply | Rejection): StartEnd {
  return { kind: 'answered', answer };
}

/** Checks what precedes the replay of a key: shape of the questions, size, and rules 2 and 12. */
function* intentOf({ papers }: AttemptDeps, call: Call<StartRequest>): Pieces<StartIntent | Rejection> {
  const { body, params, identity } = call;
  const { idempotency } = identity;
  if (idempotency === undefined) throw new Error('the start route lacks its idempotency guard');
  const examId = params.examId ?? '';
  const studentId = viewerOf(identity).id;
  const paper = yield* papers.copy(body.questions);
  if (isRejection(paper)) return paper;
  if (paper.bytes > MAX_START_BYTES) return { rejected: 'PAYLOAD_TOO_LARGE' };
  const courseMarker = call.headers['x-course-attempt-context-source'] ?? null;
  const bound = bindStart({ examId, studentId, courseMarker }, body);
  if (isRejection(bound)) return bound;
  return { examId, studentId, ...idempotency, body, paper, courseContext: bound.courseContext };
}

/** Returns the student's open attempt and stores the key as an alias of it. */
async function reuse(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  intent: StartIntent,
  { plan, open, granted }: { plan: StartPlan; open: EarlierAttempt; granted: readonly TimeGrant[] },
): Promise<StartEnd> {
  const refused = refuseOpenAttempt(open, plan);
  if (refused !== null) return answered(refused);
  try {
    await addStartKey(deps.mongo, open, intent.key, MAX_START_KEY_ALIASES);
  } catch (error) {
    if (isDuplicateKey(error)) return { kind: 'raced' };
    throw error;
  }
  return existing(deps, call, open, { granted, replayed: false });
}

/** Checks rule 9, then inserts the attempt. Of several concurrent starts of a student only one insert succeeds. */
async function begin(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  intent: StartIntent,
  { plan, seen, now }: { plan: StartPlan; seen: Seen; now: Date },
): Promise<StartEnd> {
  const { earlier } = seen;
  const seat = seatNeed(plan, intent.studentId);
  const facts = seat === null ? { seats: 0, hasSeat: false } : await seatFacts(deps.mongo, seat);
  const refused = admitStart(plan, { attempts: countedAttempts(plan, earlier), ...facts });
  if (refused !== null) {
    return (await hasOtherStart(deps, intent, earlier)) ? { kind: 'raced' } : answered(refused);
  }
  if (seen.isErased) return answered({ rejected: 'PERSON_ERASED' });
  const attempt = await attemptOf(deps, intent, plan, seen, now);
  await deps.starts.noteExam(attempt);
  const taken = facts.hasSeat ? null : seat;
  const result = await deps.starts.insert(attempt, {
    seat: seat === null ? null : { ...seat, isHeld: facts.hasSeat },
    voided: earlier.filter(isVoided),
  });
  switch (result.kind) {
    case 'raced':
      return result;
    case 'full':
      // A concurrent start of the same student may have taken the last seat: rule 9 decides after a new read.
      return { kind: 'raced' };
    case 'inserted': {
      const after = await deps.starts.facts(intent);
      if (after.isErased) {
        // The erasure began after this start had read the tombstones, and may not have found the attempt.
        await withdrawAttempt(deps.mongo, attempt, taken, deps.settings.startBudgetMs);
        return answered({ rejected: 'PERSON_ERASED' });
      }
      deps.attemptRefs.add(attempt);
      const released = await applyMissedRelease(deps, attempt, after);
      const begun = await applyMissedTime(deps, released, missedGrants(released, after.granted, LAST_INSTANT));
      return answered(await startReply(deps, call, begun, { created: true, replayed: false }));
    }
  }
}

/**
 * Returns true if another start of the student has committed since `earlier` was read. Seats are read after the
 * attempts, so that start may have filled the link. This start must then return its attempt instead of a rejection.
 */
async function hasOtherStart({ starts }: AttemptDeps, intent: StartIntent, earlier: readonly EarlierAttempt[]) {
  return (await starts.earlier(intent)).length > earlier.length;
}

/** Stores the paper and returns the attempt to insert. */
async function attemptOf(
  deps: AttemptDeps,
  intent: StartIntent,
  plan: StartPlan,
  { earlier, newestRelease: releasesSeen, granted }: Seen,
  now: Date,
): Promise<Attempt> {
  const paperId = await deps.papers.store(intent.paper);
  const attempt = newAttempt(intent.body, {
    attemptId: newId(now.getTime()),
    studentId: intent.studentId,
    attemptNumber: (earlier.at(-1)?.attemptNumber ?? 0) + 1,
    startKey: intent.key,
    idempotencyHeader: intent.header,
    paperId,
    paper: intent.paper.paper,
    plan,
    courseContext: intent.courseContext,
    releasesSeen,
    // The student knows the attempt's id and could compute the authored order from it.
    seed: randomBytes(16).toString('base64url'),
    now,
  });
  return withGrantedTime(attempt, granted);
}

/**
 * Closes the same race for extra time: a grant that was stored after this start had been decided may have walked the exam before the
 * insert. If the process is killed before this, the next start of the student, which gets this attempt, gives it the time.
 */
async function applyMissedTime(deps: AttemptDeps, attempt: Attempt, missed: readonly TimeGrant[]): Promise<Attempt> {
  if (missed.length === 0) return attempt;
  for (const grant of missed) await extendDeadline(deps.mongo, attempt, grant);
  const extended = (await findAttempt(deps.mongo, attempt)) ?? attempt;
  await deps.starts.noteExam(extended);
  return extended;
}

/**
 * Closes a race: a release stored after this start was decided binds the attempt, but may have walked the exam before the
 * insert. Reads releases once more; the walk of every later release finds the attempt. If the process is killed before this,
 * grading applies the release.
 */
async function applyMissedRelease(deps: AttemptDeps, attempt: Attempt, after: StartFacts): Promise<Attempt> {
  if (after.newestRelease === attempt.releasesSeen || attempt.exam.resultsReleasedAt !== null) return attempt;
  const release = await deps.starts.bindingRelease(attempt);
  if (release !== null) await releaseOne(deps.mongo, attempt, release);
  return applyRelease(attempt, release);
}

/** Returns rule 9's count: the student's finished attempts at the exam, or on the link. A voided one does not count. */
function countedAttempts(plan: StartPlan, earlier: readonly EarlierAttempt[]): number {
  const finished = earlier.filter((attempt) => attempt.status !== 'IN_PROGRESS' && !isVoided(attempt));
  if (plan.limitScope === 'exam') return finished.length;
  return finished.filter((attempt) => attempt.accessLinkId === plan.link?.id).length;
}

function seatNeed(plan: StartPlan, studentId: string): SeatNeed | null {
  if (plan.link === null || plan.link.mode !== 'GUEST_ALLOWED') return null;
  return { linkId: plan.link.id, studentId, limit: plan.seatLimit };
}

/** Returns the reply with an attempt that the student already has. */
async function existing(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  key: AttemptKey,
  { granted, replayed }: { granted: readonly TimeGrant[]; replayed: boolean },
): Promise<StartEnd> {
  const attempt = await findAttempt(deps.mongo, key);
  // The student was erased, or the attempt was withdrawn, since this start read the student's attempts.
  if (attempt === null) return { kind: 'raced' };
  deps.attemptRefs.add(attempt);
  const whole = await applyMissedTime(deps, attempt, missedGrants(attempt, granted));
  return answered(await startReply(deps, call, whole, { created: false, replayed }));
}

async function startReply(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  attempt: Attempt,
  { created, replayed }: { created: boolean; replayed: boolean },
): Promise<TextReply> {
  const detail = await detailText(deps, attempt, viewerOf(call.identity), SAVE_REPLY_EVENTS);
  return {
    kind: 'text',
    status: created ? 201 : 200,
    data: ['{"attempt":', ...detail, `,"created":${created}}`],
    headers: { 'Idempotency-Replayed': `${replayed}` },
  };
}
