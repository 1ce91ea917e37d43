import type { Mount } from '#api/service.ts';
import { openAttemptReads, openAttemptRefs } from '#infra/mongo/attempt/attempts.ts';
import { openEventTails } from '#infra/mongo/attempt/event-tail.ts';
import { openEventReads } from '#infra/mongo/attempt/events.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import { openReplyTexts } from '#infra/mongo/attempt/reply-texts.ts';
import { openStartStore } from '#infra/mongo/attempt/start-store.ts';
import { openSubmits } from '#infra/mongo/attempt/submit.ts';
import { openSettledPoller } from '#infra/mongo/mailbox/mailbox.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';
import { attemptRoutes } from './routes.ts';

const PAPER_CACHE_BYTES = 128 * 1_024 * 1_024;
/** Texts of about 1,500 attempts with forty questions. */
const REPLY_CACHE_BYTES = 128 * 1_024 * 1_024;
const CACHED_REFS = 20_000;

export const mountAttempt: Mount = ({ config, mongo, now, log, doorbells, replies }) =>
  attemptRoutes({
    mongo,
    now,
    doorbells,
    replies,
    settledPoller: openSettledPoller(mongo),
    papers: openPapers(mongo, PAPER_CACHE_BYTES),
    findAttempt: openAttemptReads(mongo),
    newestEvents: openEventReads(mongo),
    markSubmitted: openSubmits(mongo, config.attempt.startBudgetMs),
    starts: openStartStore(mongo, config.attempt.startBudgetMs),
    attemptRefs: openAttemptRefs(mongo, CACHED_REFS),
    eventTails: openEventTails(mongo),
    replyTexts: openReplyTexts(REPLY_CACHE_BYTES),
    settings: config.attempt,
    commandAttempts: config.worker.maxAttempts,
    wanted: openWanted(mongo, now, log),
  });
