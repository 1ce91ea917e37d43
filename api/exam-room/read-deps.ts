import type { AttemptDeps } from '#api/attempt/deps.ts';
import type { Streams } from '#api/http/live-stream.ts';
import type { DoorContext } from '#api/service.ts';
import type { Log } from '#infra/log/log.ts';
import { type ExamStatistics, openExamStatistics } from './exam-statistics.ts';
import { type LiveBoards, openLiveBoards } from './live-boards.ts';

/** Dependencies of the reads of the exam room, beside those of the attempt service. */
export interface ReadDeps extends AttemptDeps {
  log: Pick<Log, 'info'>;
  streams: Streams;
  boards: LiveBoards;
  statistics: ExamStatistics;
}

/** Opens what the reads of the exam room share in a process. */
export function openReadDeps({ log, streams }: Pick<DoorContext, 'log' | 'streams'>, deps: AttemptDeps): ReadDeps {
  return {
    ...deps,
    log,
    streams,
    boards: openLiveBoards(deps.mongo, deps.now, log),
    statistics: openExamStatistics(deps.mongo, deps.papers),
  };
}
