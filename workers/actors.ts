import { accountNoticesActor } from '#workers/account-notices/actor.ts';
import { classifierActor } from '#workers/classifier/actor.ts';
import { deliveryActor } from '#workers/delivery/actor.ts';
import { essayHandoffActor } from '#workers/essay-handoff/actor.ts';
import { gradeNoticesActor } from '#workers/grade-notices/actor.ts';
import { gradingActor } from '#workers/grading/actor.ts';
import { resultsReleaseActor } from '#workers/results-release/actor.ts';
import { settlementActor } from '#workers/settlement/actor.ts';
import { upkeepActor } from '#workers/upkeep/actor.ts';
import type { Actor, WorkerDeps } from './actor.ts';

/** Every actor by its process type in the Procfile. */
export const ACTORS: Readonly<Record<string, (deps: WorkerDeps) => Actor>> = {
  grading: gradingActor,
  essayhandoff: essayHandoffActor,
  resultsrelease: resultsReleaseActor,
  gradenotices: gradeNoticesActor,
  accountnotices: accountNoticesActor,
  classifier: classifierActor,
  delivery: deliveryActor,
  settlement: settlementActor,
  upkeep: upkeepActor,
};
