import { setTimeout as delay } from 'node:timers/promises';
import { finalOf } from '#scripts/sandbox/gateway.ts';
import { TEACHER } from '#scripts/sandbox/school/paper.ts';
import type { BoardRow, BoardSummary, Outcome } from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, type Sitting, submitUntilGraded, THE_TEACHER, takeStep } from './sit-exam.ts';
import { verifyHidden } from './verify.ts';

/** An act of the teacher, as the audit must have it. */
export interface Act {
  action: string;
  /** The exam or the attempt. */
  subject: string;
  reason: string;
}

/** The teacher's day: what was done, and what the report tells of it. */
export interface ProctorsDay {
  acts: Act[];
  lines: string[];
}

const EXTRA_MINUTES = 10;
const REOPEN_MINUTES = 15;
/** One student of so many still sits when the teacher ends the exam. */
const LATE_EVERY = 20;
const POLL_MS = 100;
/** Longest wait for a grade, and for a preview. */
const WAIT_MS = 60_000;

export type Cast = ReturnType<typeof castOf>;

/**
 * Returns who still sits at the end, whose attempt is reopened, whose is voided, and who leaves the page. A small exam lacks some of them.
 * The last one, `away`, is preferably none of the others, and among the `steady`, who never leave their page by themselves.
 */
export function castOf(sittings: readonly Sitting[], steady: readonly Sitting[]) {
  const onTime = sittings.slice(0, -Math.ceil(sittings.length / LATE_EVERY));
  const [reopened, voided] = onTime.slice(-2);
  const others = new Set(onTime.slice(0, -2));
  const away = steady.findLast((sitting) => others.has(sitting)) ?? steady.at(-1);
  return { onTime, late: sittings.slice(onTime.length), reopened, voided, away };
}

/**
 * Looks at the board in the middle of the exam: one student has left the page, and gets more time. The grant is sent twice with one key, and
 * must move the deadline of this student once.
 */
export async function watchExam(deps: DemoDeps, day: ProctorsDay, { away }: Cast): Promise<void> {
  if (away === undefined) return;
  const { gateway, examId, progress, complain } = deps;
  await takeStep(deps, away, { kind: 'event', type: 'TAB_HIDDEN', metadata: { reason: 'visibilitychange' } });
  const before = await readBoard(deps);
  const { id } = away.student;
  if (!before.rows.get(away.attemptId)?.flags.includes('AWAY')) complain(`the board does not show that ${id} is away`);
  const { started, open, submitted, graded } = before.summary;
  if (started !== before.rows.size || started !== open + submitted + graded)
    complain(`the board counts ${JSON.stringify(before.summary)} for ${before.rows.size} rows`);

  const reason = 'Máy tính khởi động lại giữa giờ';
  const give = () =>
    gateway.client('teacher acts').giveExtraTime({
      examId,
      as: THE_TEACHER,
      idempotencyKey: `time-${examId}`,
      body: { minutes: EXTRA_MINUTES, studentIds: [id], reason },
    });
  const first = await done('the extra time', give());
  differences("the grant's", first, { minutes: EXTRA_MINUTES, updated: 1, remembered: 0 }).forEach(complain);
  differences("the repeated grant's", await done('the extra time', give()), first).forEach(complain);
  day.acts.push({ action: 'exam.extra-time', subject: examId, reason });
  away.actsLogged += 1;
  await takeStep(deps, away, { kind: 'event', type: 'FOCUS_RETURNED', metadata: { awaySeconds: 1 } });

  const after = await readBoard(deps);
  for (const row of after.rows.values()) {
    const minutes = row.attemptId === away.attemptId ? EXTRA_MINUTES : 0;
    const deadlineAt = laterBy(before.rows.get(row.attemptId)?.deadlineAt ?? null, minutes);
    differences(`on the board, ${row.studentId}'s`, row, { extraMinutes: minutes, deadlineAt }).forEach(complain);
  }
  const seen = seenOn(before.summary);
  progress.line(`  the teacher looks in     ${seen}; ${id} gets ${EXTRA_MINUTES} more minutes`);
  day.lines.push(
    `  half-time       the board: ${seen}; away: ${awayOn(before.rows).join(', ')}`,
    `  extra time      ${EXTRA_MINUTES} minutes for ${nameOf(away)}, sent twice, given once; no other deadline moved`,
  );
}

function seenOn({ open, away, silent }: BoardSummary): string {
  return `${open} sit, ${away} away, ${silent} silent`;
}

/** Students whom the report names at most. */
const NAMED = 3;

function awayOn(rows: ReadonlyMap<string, BoardRow>): string[] {
  const away = [...rows.values()].filter(({ flags }) => flags.includes('AWAY'));
  const named = away.slice(0, NAMED).map(({ studentId, studentInfo }) => `${studentInfo?.fullName} ${studentId}`);
  return away.length > NAMED ? [...named, '…'] : named;
}

function nameOf({ student: { fullName, id } }: Sitting): string {
  return `${fullName} ${id}`;
}

function laterBy(at: string | null, minutes: number): string | null {
  return at === null ? null : new Date(Date.parse(at) + minutes * 60_000).toISOString();
}

/** Reads the whole board. Returns its counts, and its rows by the ids of their attempts. */
async function readBoard({ gateway, examId }: DemoDeps) {
  const rows = new Map<string, BoardRow>();
  const read = (after?: string) =>
    gateway.client('board').readBoard({ examId, as: THE_TEACHER, query: { limit: 500, ...(after ? { after } : {}) } });
  let page = await read();
  const { summary } = page;
  for (;;) {
    for (const row of page.rows) rows.set(row.attemptId, row);
    if (page.next === null) return { summary, rows };
    page = await read(page.next);
  }
}

export async function done<Data>(name: string, call: Promise<Outcome<Data, unknown>>): Promise<Data> {
  return finalOf(name, await call);
}

/** Reads again until the value has come. @throws Error after a minute */
export async function until<Value>(name: string, read: () => Promise<Value | null>): Promise<Value> {
  const last = performance.now() + WAIT_MS;
  for (;;) {
    const value = await read();
    if (value !== null) return value;
    if (performance.now() > last) throw new Error(`${name} did not come; do the workers of the cluster run?`);
    await delay(POLL_MS);
  }
}

/** Ends the exam: submits for those who still sit, voids one attempt, and reopens another one, whose student submits again. */
export async function endExam(deps: DemoDeps, day: ProctorsDay, { late, reopened, voided }: Cast): Promise<void> {
  const { progress } = deps;
  progress.begin('the teacher ends it', late.length);
  await submitRest(deps, day, late);
  if (voided !== undefined) await voidOne(deps, day, voided);
  if (reopened !== undefined) await reopenOne(deps, day, reopened);

  const { summary } = await readBoard(deps);
  const wanted = { open: 0, submitted: 0, graded: summary.started, away: 0, silent: 0, overdue: 0 };
  differences("the last board's", summary, wanted).forEach(deps.complain);
  const others = [...(voided === undefined ? [] : ['1 voided']), ...(reopened === undefined ? [] : ['1 reopened'])];
  progress.end([`${late.length} submitted for their students`, ...others].join(', '));
}

async function submitRest({ gateway, examId, complain }: DemoDeps, day: ProctorsDay, late: readonly Sitting[]) {
  const reason = 'Hết giờ làm bài';
  const { submitted } = await done(
    'the submit of all',
    gateway.client('teacher acts').submitAll({ examId, as: THE_TEACHER, body: { reason } }),
  );
  if (submitted !== late.length) complain(`submit-all counts ${submitted} attempts, expected ${late.length}`);
  day.acts.push({ action: 'exam.submit-all', subject: examId, reason });

  for (const { attemptId, student } of late) {
    const { submittedBy } = await until(`the grade of ${student.id}`, async () => {
      const detail = await gateway.client('teacher reads').readAttempt({ attemptId, as: THE_TEACHER });
      return detail.status === 'GRADED' ? detail : null;
    });
    if (submittedBy !== 'TEACHER') complain(`the attempt of ${student.id} is submitted by ${submittedBy}`);
  }
  day.lines.push(`  the end         the teacher submits for ${late.length} who still sit`);
}

async function voidOne(deps: DemoDeps, day: ProctorsDay, sitting: Sitting): Promise<void> {
  const { gateway, complain } = deps;
  const { attemptId, student } = sitting;
  const reason = 'Dùng điện thoại trong phòng thi';
  const call = gateway.client('teacher acts').voidAttempt({ attemptId, as: THE_TEACHER, body: { reason } });
  const detail = await done(`the void of ${student.id}`, call);
  differences(`the voided attempt's`, detail, { voidedBy: TEACHER, voidReason: reason }).forEach(complain);
  day.acts.push({ action: 'attempt.void', subject: attemptId, reason });
  sitting.isVoid = true;
  sitting.actsLogged += 1;
  await verifyHidden(deps, sitting);
  day.lines.push(`  voided          ${nameOf(sitting)}: "${reason}"; the attempt counts nowhere`);
}

/** Reopens an attempt. Its student answers one more question, and submits again. */
async function reopenOne(deps: DemoDeps, day: ProctorsDay, sitting: Sitting): Promise<void> {
  const { gateway, complain } = deps;
  const { attemptId, student } = sitting;
  const reason = 'Nộp nhầm khi chưa làm xong';
  const body = { minutes: REOPEN_MINUTES, reason };
  const open = await done(
    `the reopening of ${student.id}`,
    gateway.client('teacher acts').reopenAttempt({ attemptId, as: THE_TEACHER, body }),
  );
  differences("the reopened attempt's", open, { status: 'IN_PROGRESS', totalScore: null }).forEach(complain);
  day.acts.push({ action: 'attempt.reopen', subject: attemptId, reason });
  sitting.rounds += 1;
  sitting.actsLogged += 1;

  const question = open.questions.find(({ type }) => type === 'NUMERIC');
  if (question !== undefined) {
    const answer = { textAnswer: '48' };
    await takeStep(deps, sitting, { kind: 'save', questionId: question.questionId, answer, mishap: 'none' });
  }
  await submitUntilGraded(deps, sitting, 1);
  const { scoreHistory = [] } = await gateway.client('teacher reads').readAttempt({ attemptId, as: THE_TEACHER });
  const causes = scoreHistory.map(({ cause }) => cause);
  differences("the reopened attempt's", { causes }, { causes: ['GRADE', 'REOPEN', 'GRADE'] }).forEach(complain);
  day.lines.push(`  reopened        ${nameOf(sitting)}, ${REOPEN_MINUTES} minutes: "${reason}"; submitted again`);
}
