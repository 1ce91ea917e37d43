import type { Collection } from 'mongodb';
import type { ClassificationJob, JobBatch, JobSelection } from '../../../classifier/job.ts';
import type { Mongo } from '../connect.ts';

/** The random word of the last guarded write; absent until the first one. */
interface Stamped {
  stamp?: string;
}

export type JobRow = ClassificationJob & Stamped;

// Jobs.
export const AI_JOBS = 'ai_jobs';
export const AI_JOB_SELECTIONS = 'ai_job_selections';
export const AI_JOB_BATCHES = 'ai_job_batches';

export const aiJobs = (mongo: Mongo): Collection<JobRow> => mongo.db.collection(AI_JOBS);
export const aiJobSelections = (mongo: Mongo): Collection<JobSelection> => mongo.db.collection(AI_JOB_SELECTIONS);
export const aiJobBatches = (mongo: Mongo): Collection<JobBatch> => mongo.db.collection(AI_JOB_BATCHES);
