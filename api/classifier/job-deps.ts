import type { StreamPlaces } from '#api/http/live-stream.ts';
import type { Neighbour } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { ChangeBell } from '#infra/redis/change-bell.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { Now } from '#shared/kernel/time.ts';

/** What the routes of classification jobs work with. */
export interface JobDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  doorbells: Pick<Doorbells, 'ring'>;
  /** null: prompts hold ids only. */
  questionBank: Neighbour | null;
  /** Attempts of one round of a job. */
  jobAttempts: number;
  /** Of jobs: wakes their streams, and is heard by them. */
  jobBell: Pick<ChangeBell, 'wake' | 'listen' | 'canHear'>;
  streams: {
    places: StreamPlaces;
    /** Aborted when the process begins to drain: streams end first. */
    draining: AbortSignal;
  };
  log: Pick<Log, 'debug' | 'warn'>;
}
