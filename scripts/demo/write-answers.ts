import { isDeepStrictEqual } from 'node:util';
import type { Answer, AttemptDetail } from '#shared/generated/attempt.ts';
import type { Step } from './answer-sheet.ts';
import { dataOf, type GatewayReply } from './gateway.ts';
import { asStudent, type DemoDeps, type Sitting } from './sitting.ts';

type Save = Extract<Step, { kind: 'save' }>;

/** Takes one step of a student's answer sheet; what the service acknowledges is noted in the sitting. */
export async function takeStep(deps: DemoDeps, sitting: Sitting, step: Step): Promise<void> {
  if (step.kind === 'event') return postEvent(deps, sitting, step);
  await save(deps, sitting, step);
  if (step.mishap === 'stale tab') await saveFromStaleTab(deps, sitting, step);
}

async function postEvent(deps: DemoDeps, sitting: Sitting, { type, metadata }: Extract<Step, { kind: 'event' }>) {
  const reply = await deps.gateway.send({
    name: 'event',
    method: 'POST',
    path: `/v1/attempts/${sitting.attemptId}/events`,
    caller: asStudent(sitting.student),
    body: { type, metadata },
  });
  dataOf('event', reply, 201);
  sitting.eventsAcknowledged += 1;
  sitting.actsInDoubt += reply.sentTimes - 1;
}

/** A client that names the version it saw last, so that a save of its own that came through unseen is recognised. */
async function save(deps: DemoDeps, sitting: Sitting, step: Save): Promise<void> {
  const lost = step.mishap === 'lost reply';
  const reply = await sendSave(deps, sitting, step.questionId, step.answer, versionOf(sitting, step), 'tab-1', lost);
  sitting.actsInDoubt += reply.sentTimes - 1;
  if (reply.status === 409) {
    const { code, data } = reply.envelope();
    const current = (data as { answer?: StoredAnswer } | undefined)?.answer;
    // The save whose reply was lost had been stored: its own answer is what is newer.
    if (
      reply.sentTimes === 1 ||
      code !== 'ANSWER_VERSION_CONFLICT' ||
      !isDeepStrictEqual(current?.answer, step.answer)
    ) {
      deps.complain(`the save of ${step.questionId} by ${sitting.student.id} was refused: ${code}`);
      return;
    }
    note(sitting, step, current?.serverVersion ?? 0);
    // Of all sendings one was stored, and that one is noted.
    sitting.actsInDoubt -= 1;
  } else {
    const detail = dataOf<AttemptDetail>('save', reply, 200);
    const stored = detail.answers.find((answer) => answer.questionId === step.questionId);
    if (!isDeepStrictEqual(stored?.answer, step.answer)) {
      deps.complain(`${sitting.student.id}: the reply to a save shows another answer`);
    }
    note(sitting, step, stored?.serverVersion ?? 0);
  }
}

/** Another tab, one version behind, must be told of the conflict and change nothing. */
async function saveFromStaleTab(deps: DemoDeps, sitting: Sitting, step: Save): Promise<void> {
  const stale = versionOf(sitting, step) - 1;
  if (stale < 1) return;
  const reply = await sendSave(deps, sitting, step.questionId, step.answer, stale, 'tab-2', false);
  const { code } = reply.envelope();
  if (reply.status !== 409 || code !== 'ANSWER_VERSION_CONFLICT') {
    deps.complain(`a stale save of ${sitting.student.id} got ${reply.status} ${code ?? ''}`);
  }
}

interface StoredAnswer {
  answer: Answer;
  serverVersion: number;
}

function sendSave(
  deps: DemoDeps,
  sitting: Sitting,
  questionId: string,
  answer: Answer,
  clientVersion: number,
  sourceTabId: string,
  loseReply: boolean,
): Promise<GatewayReply> {
  return deps.gateway.send({
    name: 'save',
    method: 'POST',
    path: `/v1/attempts/${sitting.attemptId}/answers`,
    caller: asStudent(sitting.student),
    body: { questionId, answer, clientVersion, sourceTabId },
    loseReply,
  });
}

function note(sitting: Sitting, step: Save, version: number): void {
  sitting.answers.set(step.questionId, step.answer);
  sitting.versions.set(step.questionId, version);
  sitting.savesAcknowledged += 1;
}

function versionOf(sitting: Sitting, { questionId }: Save): number {
  return sitting.versions.get(questionId) ?? 0;
}
