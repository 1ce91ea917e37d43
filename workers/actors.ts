import type { WorkerType } from '#infra/config/readers.ts';
import type { Actor, WorkerDeps } from './actor.ts';

/** Makes an actor. */
export type MakeActor = (deps: WorkerDeps) => Actor;

/**
 * Every actor by its process type in the Procfile, with the function that loads it. A worker loads its own actor alone: the modules and
 * libraries of the others would take memory and time in each process.
 */
export const ACTORS: Readonly<Record<WorkerType, () => Promise<MakeActor>>> = {
  grading: async () => (await import('#workers/grading/actor.ts')).gradingActor,
  essayhandoff: async () => (await import('#workers/essay-handoff/actor.ts')).essayHandoffActor,
  resultsrelease: async () => (await import('#workers/results-release/actor.ts')).resultsReleaseActor,
  examroom: async () => (await import('#workers/exam-room/actor.ts')).examRoomActor,
  gradenotices: async () => (await import('#workers/grade-notices/actor.ts')).gradeNoticesActor,
  accountnotices: async () => (await import('#workers/account-notices/actor.ts')).accountNoticesActor,
  classifier: async () => (await import('#workers/classifier/actor.ts')).classifierActor,
  delivery: async () => (await import('#workers/delivery/actor.ts')).deliveryActor,
  settlement: async () => (await import('#workers/settlement/actor.ts')).settlementActor,
  upkeep: async () => (await import('#workers/upkeep/actor.ts')).upkeepActor,
};
