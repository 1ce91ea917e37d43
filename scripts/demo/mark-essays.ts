import type { HandoffReply, StartQuestion } from '../../shared/generated/attempt.ts';
import { gradeEssay } from './essay-drafts.ts';
import { dataOf } from './gateway.ts';
import type { DemoDeps, Sitting } from './sitting.ts';

const REPEAT_EVERY = 10;
const LATE_TRIES = 6;

/** The sittings whose student wrote an essay: the others have nothing to be marked. */
export function writtenEssays(sittings: readonly Sitting[], essay: StartQuestion): Sitting[] {
  return sittings.filter((sitting) => (sitting.answers.get(essay.questionId)?.textAnswer ?? '').trim() !== '');
}

/** Hands off the grade of one essay as the AI classifier does, every tenth one twice. */
export async function markEssay(deps: DemoDeps, sitting: Sitting, index: number, essay: StartQuestion): Promise<void> {
  const text = sitting.answers.get(essay.questionId)?.textAnswer ?? '';
  const { score, criteria, feedback } = gradeEssay(text, essay.score);
  const body = {
    sourceService: 'ai-classifier-service',
    type: 'ai.essay_grade.handoff.v1',
    sourceEventId: `grade-${sitting.attemptId}`,
    questionId: essay.questionId,
    score,
    maxScore: essay.score,
    feedback,
    criteria,
    provider: 'demo',
    model: 'rubric',
    occurredAt: new Date().toISOString(),
  };
  const first = await handOff(deps, sitting, body);
  // Only the call that brought it is told so; where that one's reply was lost, this one met a replay.
  if (first.applied !== true && !first.wasRepeated)
    deps.complain(`the essay grade of ${sitting.student.id} was not applied`);
  sitting.essayPoints = score;
  if (index % REPEAT_EVERY !== 0) return;
  const again = await handOff(deps, sitting, body);
  if (again.applied !== false) deps.complain(`the essay grade of ${sitting.student.id} was applied twice`);
}

/** Until it is applied: 202 says that the worker is late, and asking again waits for the same command. */
async function handOff(deps: DemoDeps, sitting: Sitting, body: object) {
  for (let tried = 1; ; tried++) {
    const reply = await deps.gateway.send({
      name: 'essay handoff',
      method: 'POST',
      path: `/v1/attempts/${sitting.attemptId}/essay-grade-handoffs`,
      headers: { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': deps.internalToken },
      body,
    });
    const { applied } = dataOf<HandoffReply>('essay handoff', reply, 200, 202);
    if (reply.status === 200) return { applied, wasRepeated: tried > 1 || reply.sentTimes > 1 };
    if (tried === LATE_TRIES) throw new Error(`the essay of attempt ${sitting.attemptId} is still not marked`);
  }
}
