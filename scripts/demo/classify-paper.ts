import type { StartQuestion } from '#shared/generated/attempt.ts';
import type { CreateJobReply, CreateJobRequest } from '#shared/generated/classifier.ts';
import { followJob } from './follow-job.ts';
import { dataOf } from './gateway.ts';
import type { Progress } from './progress.ts';
import type { ClassificationFacts } from './report.ts';
import { asTeacher, type DemoDeps } from './sitting.ts';
import type { StandIn } from './stand-in.ts';
import { FIELDS, verifyJob } from './verify-job.ts';

const PATH = '/v1/ai-classifier/jobs';

/** A teacher has the paper classified and looks on. `bank`: where its questions must have been asked for; null = nobody need ask the demo. */
export async function classifyPaper(
  deps: DemoDeps,
  progress: Progress,
  questions: readonly StartQuestion[],
  bank: StandIn | null,
): Promise<ClassificationFacts> {
  const owner = asTeacher();
  const questionIds = questions.map(({ questionId }) => questionId);
  // Of an earlier demo that was broken off an equal job may be open, and it would be given.
  const body: CreateJobRequest = { questionIds, fields: [...FIELDS], filters: { examId: deps.examId } };
  progress.begin('classify the paper', questionIds.length);
  const reply = await deps.gateway.send({ name: 'classify', method: 'POST', path: PATH, caller: owner, body });
  const { job, created } = dataOf<CreateJobReply>('classify', reply, 200, 201);
  // Sent again because no reply came: the first sending may have made it.
  if (!created && reply.sentTimes === 1) deps.complain(`job ${job.id} was open before it was made`);
  const followed = await followJob(deps.gateway, { owner, jobId: job.id }, ({ progress: { processed } }) => {
    progress.reach(processed);
  });
  followed.faults.forEach(deps.complain);
  const classified = followed.job === null ? 0 : await verifyJob(deps, followed.job, questionIds);
  const asked = bank === null ? null : bank.questionsAsked();
  if (asked !== null && asked < questionIds.length) deps.complain(`the question bank was asked for ${asked} questions`);
  progress.end(`${classified} of ${questionIds.length}, told live ${followed.told} times`);
  return { questions: questionIds.length, classified, told: followed.told, asked };
}
