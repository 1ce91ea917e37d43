import { setTimeout as delay } from 'node:timers/promises';
import type { AttemptDetail } from '#shared/generated/attempt.ts';
import { dataOf } from './gateway.ts';
import { asStudent, type DemoDeps, type Sitting } from './sitting.ts';

const DOUBLE_EVERY = 12;
const LOSE_EVERY = 17;
const LATE_SAVE_EVERY = 10;
const LATE_TRIES = 60;
const LATE_REST_MS = 500;

/** Hands in, now and then twice at once or with a lost reply, until the grade is there; gives how late it came. */
export async function handIn(deps: DemoDeps, sitting: Sitting, index: number): Promise<void> {
  const requests = [submit(deps, sitting, index % LOSE_EVERY === 0)];
  if (index % DOUBLE_EVERY === 0) requests.push(submit(deps, sitting, false));
  for (const detail of await Promise.all(requests)) checkHidden(deps, sitting, detail);
  if (index % LATE_SAVE_EVERY === 0) await saveTooLate(deps, sitting);
}

async function submit(deps: DemoDeps, sitting: Sitting, loseReply: boolean): Promise<AttemptDetail> {
  for (let tried = 1; ; tried++) {
    const reply = await deps.gateway.send({
      name: 'submit → graded',
      method: 'POST',
      path: `/v1/attempts/${sitting.attemptId}/submit`,
      caller: asStudent(sitting.student),
      body: { source: 'STUDENT' },
      loseReply: loseReply && tried === 1,
    });
    const detail = dataOf<AttemptDetail>('submit', reply, 200, 202);
    if (reply.status === 200) return detail;
    // The worker is late: the attempt is handed in, and asking again waits for the same grading.
    if (tried === LATE_TRIES) throw new Error(`attempt ${sitting.attemptId} is still not graded`);
    await delay(LATE_REST_MS);
  }
}

/** Graded, yet nothing of the grade may be seen before the results are released. */
function checkHidden(deps: DemoDeps, { student }: Sitting, detail: AttemptDetail): void {
  if (detail.status !== 'GRADED') deps.complain(`submit of ${student.id} left ${detail.status}`);
  const shown = [detail.totalScore, detail.correctCount, detail.wrongCount, detail.pendingManualCount];
  const leaks =
    detail.resultVisible ||
    shown.some((value) => value !== null) ||
    detail.answers.some((answer) => answer.score !== null || answer.isCorrect !== null) ||
    detail.questions.some((question) => 'answerKey' in question);
  if (leaks) deps.complain(`${student.id} sees a grade before the release`);
}

/** What comes after the submit must not change what was graded. */
async function saveTooLate(deps: DemoDeps, sitting: Sitting): Promise<void> {
  const [questionId] = sitting.answers.keys();
  if (questionId === undefined) return;
  const reply = await deps.gateway.send({
    name: 'save too late',
    method: 'POST',
    path: `/v1/attempts/${sitting.attemptId}/answers`,
    caller: asStudent(sitting.student),
    body: { questionId, answer: sitting.answers.get(questionId) },
  });
  if (reply.status !== 409 || reply.envelope().code !== 'ATTEMPT_LOCKED') {
    deps.complain(`a save of ${sitting.student.id} after the submit got ${reply.status}`);
  }
}
