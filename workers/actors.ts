import type { Actor } from './actor.ts';
import { classifierActor } from './classifier/actor.ts';
import { deliveryActor } from './delivery/actor.ts';
import type { WorkerDeps } from './deps.ts';
import { essayHandoffActor } from './essay-handoff/actor.ts';
import { gradeNoticesActor } from './grade-notices/actor.ts';
import { gradingActor } from './grading/actor.ts';
import { resultsReleaseActor } from './results-release/actor.ts';
import { settlementActor } from './settlement/actor.ts';
import { upkeepActor } from './upkeep/actor.ts';

/** Every actor by its process type, as the Procfile names it. */
export const ACTORS: Readonly<Record<string, (deps: WorkerDeps) => Actor>> = {
  grading: gradingActor,
  essayhandoff: essayHandoffActor,
  resultsrelease: resultsReleaseActor,
  gradenotices: gradeNoticesActor,
  classifier: classifierActor,
  delivery: deliveryActor,
  settlement: settlementActor,
  upkeep: upkeepActor,
};
