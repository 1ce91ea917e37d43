import { type FindAttempt, openAttemptReads } from '#infra/mongo/attempt/attempts.ts';
import { type GradingPaper, openGradingPapers } from '#infra/mongo/attempt/corrections.ts';
import { type EventTails, openEventTails } from '#infra/mongo/attempt/event-tail.ts';
import { type NewestEvents, openEventReads } from '#infra/mongo/attempt/events.ts';
import { openPapers, type Papers } from '#infra/mongo/attempt/papers.ts';
import { type AttemptRefs, openAttemptRefs } from '#infra/mongo/attempt/refs.ts';
import { openReplyTexts, type ReplyTexts } from '#infra/mongo/attempt/reply-texts.ts';
import { openStartStore, type StartStore } from '#infra/mongo/attempt/start-store.ts';
import { type MarkSubmitted, openSubmits } from '#infra/mongo/attempt/submit.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openSettledPoller, type SettledPoller } from '#infra/mongo/mailbox/mailbox.ts';

/** JSON of papers, each of which takes some four times as much in memory. */
const PAPER_CACHE_BYTES = 64 * 1_024 * 1_024;
/** Texts of about 1,500 attempts with forty questions. */
const REPLY_CACHE_BYTES = 128 * 1_024 * 1_024;
const CACHED_REFS = 20_000;

/** The reads and writes of attempts by a front door, with the memories of its process. */
export interface AttemptStores {
  mongo: Mongo;
  papers: Papers;
  gradingPaper: GradingPaper;
  findAttempt: FindAttempt;
  newestEvents: NewestEvents;
  markSubmitted: MarkSubmitted;
  starts: StartStore;
  attemptRefs: AttemptRefs;
  eventTails: EventTails;
  replyTexts: ReplyTexts;
  settledPoller: SettledPoller;
}

/** Opens the stores of a process, with empty memories. `budgetMs` is the time limit of the transaction of a start or a submit. */
export function openAttemptStores(mongo: Mongo, budgetMs: number): AttemptStores {
  const papers = openPapers(mongo, PAPER_CACHE_BYTES);
  return {
    mongo,
    papers,
    gradingPaper: openGradingPapers(mongo, papers),
    findAttempt: openAttemptReads(mongo),
    newestEvents: openEventReads(mongo),
    markSubmitted: openSubmits(mongo, budgetMs),
    starts: openStartStore(mongo, budgetMs),
    attemptRefs: openAttemptRefs(mongo, CACHED_REFS),
    eventTails: openEventTails(mongo),
    replyTexts: openReplyTexts(REPLY_CACHE_BYTES),
    settledPoller: openSettledPoller(mongo),
  };
}
