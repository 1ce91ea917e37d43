import type { Call, Reply } from '#api/route.ts';
import { addStartKey, type Sitting, sittingsOf } from '#infra/mongo/attempt/attempts.ts';
import { insertAttempt, type SeatNeed, seatFacts } from '#infra/mongo/attempt/insert-attempt.ts';
import { paperBytes } from '#infra/mongo/attempt/papers.ts';
import { findRelease, releaseOne } from '#infra/mongo/attempt/release.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { Attempt, CourseContext } from '#shared/attempt/attempt.ts';
import { copyPaper } from '#shared/attempt/copy-paper.ts';
import { MAX_START_BYTES, MAX_START_KEY_ALIASES, SAVE_REPLY_EVENTS } from '#shared/attempt/limits.ts';
import { newAttempt } from '#shared/attempt/new-attempt.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { admitStart, bindStart, planStart, reuseOpenAttempt, type StartPlan } from '#shared/attempt/start-rules.ts';
import type { StartRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type AttemptDeps, detailOf, knownAttempt, viewerOf } from './deps.ts';

/** A start whose rules that need nothing stored have been passed. */
interface StartIntent {
  examId: string;
  studentId: string;
  key: string;
  header: string;
  body: StartRequest;
  paper: Paper;
  courseContext: CourseContext | null;
}

/** How often two starts of one student may meet before the second gives up; each round sees what the other wrote. */
const ROUNDS = 20;

/**
 * Starts an attempt, or gives the one that this key or this student already has. Nothing is checked and then written
 * on trust: what the rules counted is held by unique indexes, and a start that lost a race looks again.
 */
export async function startAttempt(deps: AttemptDeps, call: Call<StartRequest>): Promise<Reply | Rejection> {
  const intent = intentOf(call);
  if (isRejection(intent)) return intent;
  for (let round = 0; round < ROUNDS; round++) {
    const sittings = await sittingsOf(deps.mongo, intent.examId, intent.studentId);
    const replayed = sittings.find((sitting) => sitting.startKeys.includes(intent.key));
    if (replayed !== undefined) return existing(deps, call, replayed._id, { replayed: true });
    const open = sittings.find((sitting) => sitting.status === 'IN_PROGRESS');
    const end = open === undefined ? await begin(deps, call, intent, sittings) : await reuse(deps, call, intent, open);
    if (end.kind === 'answered') return end.answer;
  }
  return { rejected: 'UNAVAILABLE', retryAfter: 1 };
}

/** `raced`: another start of this student came first, so everything is looked at again. */
type StartEnd = { kind: 'answered'; answer: Reply | Rejection } | { kind: 'raced' };

function answered(answer: Reply | Rejection): StartEnd {
  return { kind: 'answered', answer };
}

/** Shape of the questions, size, and rules 2 and 12: what is judged before the replay of a key. */
function intentOf(call: Call<StartRequest>): StartIntent | Rejection {
  const { body, params, identity } = call;
  const { idempotency } = identity;
  if (idempotency === undefined) throw new Error('the start route lacks its idempotency guard');
  const examId = params.examId ?? '';
  const studentId = viewerOf(identity).id;
  const copied = copyPaper(body.questions);
  if (isRejection(copied)) return copied;
  const { paper } = copied;
  if (paperBytes(paper) > MAX_START_BYTES) return { rejected: 'PAYLOAD_TOO_LARGE' };
  const courseMarker = call.headers['x-course-attempt-context-source'] ?? null;
  const bound = bindStart({ examId, studentId, courseMarker }, body);
  if (isRejection(bound)) return bound;
  return { examId, studentId, ...idempotency, body, paper, courseContext: bound.courseContext };
}

/** The student has an open attempt: it is handed back, and the key becomes one of its own. */
async function reuse(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  intent: StartIntent,
  open: Sitting,
): Promise<StartEnd> {
  const now = new Date(deps.now());
  const decision = reuseOpenAttempt(open, { access: intent.body.access, startKey: intent.key, now });
  if (isRejection(decision)) return answered(decision);
  try {
    if (decision.storeAlias) await addStartKey(deps.mongo, open._id, intent.key, MAX_START_KEY_ALIASES + 1);
  } catch (error) {
    if (isDuplicateKey(error)) return { kind: 'raced' };
    throw error;
  }
  return answered(await existing(deps, call, open._id, { replayed: false }));
}

/** Rules 4 to 11, then the insert that only one of several starts can win. */
async function begin(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  intent: StartIntent,
  sittings: readonly Sitting[],
): Promise<StartEnd> {
  const now = new Date(deps.now());
  const plan = planStart(intent.body, now);
  if (isRejection(plan)) return answered(plan);
  const seat = seatNeed(plan, intent.studentId);
  const facts = seat === null ? { seats: 0, hasSeat: false } : await seatFacts(deps.mongo, seat);
  const refused = admitStart(plan, { attempts: countedAttempts(plan, sittings), ...facts }, now);
  if (refused !== null) return answered(refused);
  const attempt = await attemptOf(deps, intent, plan, sittings, now);
  const result = await insertAttempt(deps.mongo, attempt, facts.hasSeat ? null : seat, deps.settings.startBudgetMs);
  switch (result.kind) {
    case 'raced':
      return result;
    case 'full':
      return answered({ rejected: 'ACCESS_LINK_FULL' });
    case 'inserted': {
      deps.heads.remember(attempt);
      const released = await releasedMeanwhile(deps, attempt);
      return answered(await startReply(deps, call, released, { created: true, replayed: false }));
    }
  }
}

async function attemptOf(
  deps: AttemptDeps,
  intent: StartIntent,
  plan: StartPlan,
  sittings: readonly Sitting[],
  now: Date,
): Promise<Attempt> {
  const { exam } = intent.body;
  const [paperId, release] = await Promise.all([
    deps.papers.keep(intent.paper),
    findRelease(deps.mongo, exam.id, exam.organizationId ?? null),
  ]);
  const attemptId = newId(now.getTime());
  return newAttempt(intent.body, {
    attemptId,
    studentId: intent.studentId,
    attemptNumber: (sittings.at(-1)?.attemptNumber ?? 0) + 1,
    startKey: intent.key,
    idempotencyHeader: intent.header,
    paperId,
    paper: intent.paper,
    plan,
    courseContext: intent.courseContext,
    releasedAt: release?.releasedAt ?? null,
    seed: attemptId,
    now,
  });
}

/**
 * A release that was remembered after this start had looked for one may have walked by before the attempt was there: it is looked
 * for once more, now that every later walk must find the attempt.
 */
async function releasedMeanwhile(deps: AttemptDeps, attempt: Attempt): Promise<Attempt> {
  if (attempt.exam.resultsReleasedAt !== null) return attempt;
  const release = await findRelease(deps.mongo, attempt.examId, attempt.organizationId);
  if (release === null) return attempt;
  await releaseOne(deps.mongo, attempt._id, release.releasedAt);
  return { ...attempt, exam: { ...attempt.exam, resultsReleasedAt: release.releasedAt } };
}

/** Rule 9's count: finished attempts at the exam, or on the link. */
function countedAttempts(plan: StartPlan, sittings: readonly Sitting[]): number {
  const finished = sittings.filter((sitting) => sitting.status !== 'IN_PROGRESS');
  if (plan.limitScope === 'exam') return finished.length;
  return finished.filter((sitting) => sitting.accessLinkId === plan.link?.id).length;
}

function seatNeed(plan: StartPlan, studentId: string): SeatNeed | null {
  if (plan.link === null || plan.link.mode !== 'GUEST_ALLOWED') return null;
  return { linkId: plan.link.id, studentId, limit: plan.seatLimit };
}

async function existing(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  attemptId: string,
  { replayed }: { replayed: boolean },
): Promise<Reply> {
  const attempt = await knownAttempt(deps, attemptId);
  deps.heads.remember(attempt);
  return startReply(deps, call, attempt, { created: false, replayed });
}

async function startReply(
  deps: AttemptDeps,
  call: Call<StartRequest>,
  attempt: Attempt,
  { created, replayed }: { created: boolean; replayed: boolean },
): Promise<Reply> {
  return {
    status: created ? 201 : 200,
    data: { attempt: await detailOf(deps, attempt, viewerOf(call.identity), SAVE_REPLY_EVENTS), created },
    headers: { 'Idempotency-Replayed': `${replayed}` },
  };
}
