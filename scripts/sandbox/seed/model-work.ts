import { followJob } from '#scripts/sandbox/demo/classify-paper.ts';
import { refusalOf } from '#scripts/sandbox/gateway.ts';
import type { CreateJobRequest, Identity } from '../../../clients/typescript/src/index.ts';
import type { Filling } from './people.ts';

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
  const as: Identity = { id: room.teacher.id, role: 'TEACHER', organizationId: room.organizationId };
  const client = gateway.client('classify');
  const questionIds = exam.questions.map(({ questionId }) => questionId);
  progress.begin('classify a paper', questionIds.length);
  const { items } = await client.listJobs({ as, query: { limit: NEWEST } });
  if (items.some(({ scope }) => scope.filters?.seed === school.prefix)) {
    progress.end('done by an earlier run');
    return;
  }

  const filters = { seed: school.prefix };
  const body: CreateJobRequest = { questionIds, fields: ['topic', 'difficulty'], filters };
  const { job } = await client.createJob({ as, body, repeatInDoubt: true });
  add('classification jobs');
  const followed = await followJob(client, { owner: as, jobId: job.id }, ({ progress: { processed } }) => {
    progress.reach(processed);
  });
  for (const fault of followed.faults) note(`Classification: ${fault}`);
  progress.end(followed.job?.status ?? 'not finished');

  const refused = await refusalOf(
    gateway.client('generate').previewGeneration({
      as,
      body: {
        mode: 'fresh',
        subject: 'Toán',
        gradeLevel: 12,
        topic: 'Tích phân',
        questionType: 'SINGLE_CHOICE',
        difficulty: 'MEDIUM',
        count: 2,
      },
    }),
  );
  if (refused === null) add('generations');
  else note(`No questions were generated: ${refused.status} ${refused.code}`);
}
