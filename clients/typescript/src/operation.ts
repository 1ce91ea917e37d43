import type { Credential, Credentials } from './credentials.ts';
import type { SentRequest } from './exchange.ts';
import type { Operations, ROUTES, SessionEnvelope, StreamOperations } from './generated.ts';

export type OperationName = keyof Operations;

/** Operations that may answer 202: the request is stored, and its result comes later. */
export type PendingName = {
  [Name in OperationName]: [Operations[Name]['pending']] extends [never] ? never : Name;
}[OperationName];

/** Result of an operation that may answer 202. If `done` is false, the deadline passed before the result came; nothing failed. */
export type Outcome<Final, Pending> =
  | { readonly done: true; readonly data: Final }
  | { readonly done: false; readonly data: Pending };

/** Members of every input beside the operation's own. */
export interface CallOptions {
  /** Ends the call and every repeat. The call then throws the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
  /** Time limit of one request (ms). */
  readonly timeoutMs?: number;
  /** Time limit of the whole call with its repeats, and with the wait for the result of a 202 (ms). */
  readonly deadlineMs?: number;
  /** Echoed in the reply and written to the server's log: 1-128 of `A-Za-z0-9_.-`. */
  readonly requestId?: string;
  /** W3C trace context of the request that causes this call. */
  readonly traceparent?: string;
  /** True repeats the call even if its request may have taken effect. Default: only where a second one does no harm. */
  readonly repeatInDoubt?: boolean;
  /** Receives each request of the call after its end. After more than one, a result may be that of an earlier request. */
  readonly observe?: (sent: SentRequest) => void;
}

/** Further member of the input of an operation that takes an idempotency key. */
export interface KeyOptions {
  /** Default: a new key for each call. Every repeat of the call has the same one. */
  readonly idempotencyKey?: string;
}

/** Further member of the input of an operation that may answer 202. */
export interface FollowOptions {
  /** False returns a 202 at once. Default true. */
  readonly follow?: boolean;
}

interface Shape {
  readonly input: object;
  readonly needs: Credential;
  readonly oneOf: Credential;
}

type Shown = Required<Credentials>;

/** Credentials that a call must pass because its client does not know them. */
type Missing<Needs extends Credential, Known> = Pick<Shown, Exclude<Needs, Known>>;

type MissingOne<Names extends Credential, Known> = [Names] extends [never]
  ? unknown
  : [Extract<Names, Known>] extends [never]
    ? { [Name in Names]: Pick<Shown, Name> }[Names]
    : unknown;

type Input<Operation extends Shape, Known> = Operation['input'] &
  Missing<Operation['needs'], Known> &
  MissingOne<Operation['oneOf'], Known> &
  Credentials;

/** Input of an operation, for a client that knows the credentials `Known`. */
export type InputOf<Name extends OperationName, Known = never> = Input<Operations[Name], Known> &
  CallOptions &
  ((typeof ROUTES)[Name]['readsKey'] extends true ? KeyOptions : unknown) &
  (Name extends PendingName ? FollowOptions : unknown);

/** Input of a stream, for a client that knows the credentials `Known`. */
export type StreamInputOf<Name extends keyof StreamOperations, Known = never> = Input<StreamOperations[Name], Known>;

/** The parameters of a function with this input, which may be left out if it has no required member. */
export type Arguments<Given> = Record<never, never> extends Given ? [input?: Given] : [input: Given];

/** Final data that an operation has only after a 202, beside those of its own replies. */
interface FollowedData {
  readonly replayDeadLetters: Operations['replayDeadLetters']['pending'];
  readonly ackDeadLetters: Operations['ackDeadLetters']['pending'];
  readonly dropDeadLetters: Operations['dropDeadLetters']['pending'];
}

type FinalOf<Name extends OperationName> =
  | Operations[Name]['data']
  | (Name extends keyof FollowedData ? FollowedData[Name] : never);

/** Data of a reply that signs in, and the device token of its header, which a reply to another call lacks. */
export interface SignedIn extends SessionEnvelope {
  readonly deviceToken?: string | undefined;
}

/** Result of an operation: its `data`, or an outcome if it may answer 202. */
export type ResultOf<Name extends OperationName> = Name extends PendingName
  ? Outcome<FinalOf<Name>, Operations[Name]['pending']>
  : [Operations[Name]['data']] extends [SessionEnvelope]
    ? SignedIn
    : Operations[Name]['data'];

/** Codes with which an operation may be refused. */
export type CodeOf<Name extends OperationName> = Operations[Name]['codes'];
