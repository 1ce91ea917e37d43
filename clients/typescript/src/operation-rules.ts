import type { RouteFacts } from './credentials.ts';
import type { AttemptDetail, BulkAct, Operations } from './generated.ts';
import type { OperationName, PendingName } from './operation.ts';

type Body = Readonly<Record<string, unknown>> | undefined;

const always = () => true;
/** An event with both parts of its key is stored once. */
const hasSource = (body: Body) => body?.sourceService != null && body.sourceEventId != null;
const eventHasSource = (body: Body) => hasSource(body?.event as Body);
/** A bulk act needs its key. An act on ids finds nothing to do when it comes twice. */
const isRepeatable = (body: Body) => body?.filter == null || body.key != null;

/**
 * Operations beyond GET and PUT, and beyond those with an idempotency key, that may be sent again although the first request may have
 * arrived. The server knows the second one by its body, or it changes nothing more. Any other operation is repeated only if the server has
 * refused it.
 */
const REPLAY_SAFE: Readonly<Partial<Record<OperationName, (body: Body) => boolean>>> = {
  saveAnswer: always,
  postEvent: (body) => body?.type === 'TIMEOUT',
  handOffGrade: always,
  releaseResults: always,
  takeNotificationEvent: hasSource,
  takeWeakTopicAlert: hasSource,
  createWeakTopicAlert: hasSource,
  createBatch: eventHasSource,
  markRead: always,
  markParentAlertRead: always,
  changePreferences: always,
  logout: always,
  stopBulkAct: always,
  replayDeadLetters: isRepeatable,
  ackDeadLetters: isRepeatable,
  dropDeadLetters: isRepeatable,
};

/** Returns whether a request may be sent again after its reply is lost. */
export function isReplaySafe(operation: OperationName, { method, readsKey }: RouteFacts, body: unknown): boolean {
  return method === 'GET' || method === 'PUT' || readsKey || REPLAY_SAFE[operation]?.(body as Body) === true;
}

/** Operations whose body has the key of a bulk act, which the client makes if the caller sets none. */
const KEYED_BODIES: ReadonlySet<OperationName> = new Set(['replayDeadLetters', 'ackDeadLetters', 'dropDeadLetters']);

/** Returns the body of an operation with the key that its repeats share. */
export function keyedBody(operation: OperationName, body: unknown, key: string): unknown {
  const order = body as Operations['replayDeadLetters']['input']['body'] | undefined;
  const isBulkAct = KEYED_BODIES.has(operation) && order?.filter != null && order.dryRun === false;
  return isBulkAct && order.key == null ? { ...order, key } : body;
}

const PREVIEW_MS = 240_000;

/** Time limits of operations that wait for a model provider (ms). */
export const SLOW_OPERATIONS: Readonly<Partial<Record<OperationName, number>>> = {
  previewGeneration: PREVIEW_MS,
  previewExplanation: PREVIEW_MS,
  previewEssayGrade: PREVIEW_MS,
};

/** How the result of a 202 is read: from the object that its data names, or by the same request again, whose reply is then final. */
type FollowRule = 'again' | FollowedObject;

interface FollowedObject {
  readonly operation: OperationName;
  /** Returns the input of the operation that reads the object. */
  inputOf(data: unknown): Record<string, string>;
  isFinal(data: unknown): boolean;
}

const ATTEMPT: FollowedObject = {
  operation: 'readAttempt',
  inputOf: (data) => ({ attemptId: (data as AttemptDetail).id }),
  isFinal: (data) => (data as AttemptDetail).status === 'GRADED',
};
const BULK_ACT: FollowedObject = {
  operation: 'getBulkAct',
  inputOf: (data) => ({ id: (data as BulkAct).id }),
  isFinal: (data) => (data as BulkAct).endedAt !== null,
};

/** The rule of each operation that may answer 202. A new one does not compile until it has a rule. */
export const FOLLOW_RULES: Readonly<Record<PendingName, FollowRule>> = {
  submitAttempt: ATTEMPT,
  postEvent: ATTEMPT,
  handOffGrade: 'again',
  releaseResults: 'again',
  giveExtraTime: 'again',
  submitAll: 'again',
  reopenAttempt: 'again',
  voidAttempt: 'again',
  restoreAttempt: 'again',
  applyRegrade: 'again',
  discardRegrade: 'again',
  replayDeadLetters: BULK_ACT,
  ackDeadLetters: BULK_ACT,
  dropDeadLetters: BULK_ACT,
};

const FIRST_POLL_MS = 1_000;
const LAST_POLL_MS = 5_000;

/** Returns the pause before the next read of a result (ms): one second first, five at most, with a random part. */
export function pollPauseMs(reads: number): number {
  return Math.min(LAST_POLL_MS, FIRST_POLL_MS * 1.5 ** reads) * (0.8 + Math.random() * 0.4);
}
