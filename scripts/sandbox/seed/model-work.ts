import { followJob } from '#scripts/sandbox/demo/classify-paper.ts';
import { type Caller, dataOf } from '#scripts/sandbox/gateway.ts';
import type { CreateJobReply, CreateJobRequest, GenerationRequest, JobList } from '#shared/generated/classifier.ts';
import type { Filling } from './fill.ts';

const JOBS = '/v1/ai-classifier/jobs';
/** Number of the teacher's jobs among which the one of an earlier run is recognized. */
const NEWEST = 100;

/**
 * Has the first teacher classify a paper and generate two questions, once for all runs. The routes would repeat a finished job and a
 * generation, so an earlier run is recognized by its job.
 */
export async function useModels(filling: Filling): Promise<void> {
  const { gateway, school, served, progress, add, note } = filling;
  const [room] = school.classes;
  const [exam] = school.exams;
  if (room === undefined || exam === undefined) return;
  if (!served.has('classifier')) {
    note('The cluster serves no `classifier`, so no question is classified.');
    return;
  }
  const owner: Caller = { id: room.teacher.id, role: 'TEACHER', organizationId: room.organizationId };
  const questionIds = exam.questions.map(({ questionId }) => questionId);
  progress.begin('classify a paper', questionIds.length);
  const filters = { seed: school.prefix };
  const listed = await gateway.send({ name: 'jobs', method: 'GET', path: `${JOBS}?limit=${NEWEST}`, caller: owner });
  const { items } = dataOf<JobList>('jobs', listed, 200);
  if (items.some(({ scope }) => scope.filters?.seed === school.prefix)) {
    progress.end('done by an earlier run');
    return;
  }
  const body: CreateJobRequest = { questionIds, fields: ['topic', 'difficulty'], filters };
  const reply = await gateway.send({ name: 'classify', method: 'POST', path: JOBS, caller: owner, body });
  const { job } = dataOf<CreateJobReply>('classify', reply, 200, 201);
  add('classification jobs');
  const followed = await followJob(gateway, { owner, jobId: job.id }, ({ progress: { processed } }) => {
    progress.reach(processed);
  });
  for (const fault of followed.faults) note(`Classification: ${fault}`);
  progress.end(followed.job?.status ?? 'not finished');
  await generate(filling, owner);
}

async function generate({ gateway, add, note }: Filling, caller: Caller): Promise<void> {
  const body: GenerationRequest = {
    mode: 'fresh',
    subject: 'Toán',
    gradeLevel: 12,
    topic: 'Tích phân',
    questionType: 'SINGLE_CHOICE',
    difficulty: 'MEDIUM',
    count: 2,
  };
  const path = '/v1/ai/generation/preview';
  const reply = await gateway.send({ name: 'generate', method: 'POST', path, caller, body, timeoutMs: 120_000 });
  if (reply.status === 200) add('generations');
  else note(`No questions were generated: ${reply.status} ${reply.envelope().code ?? ''}`.trim());
}
