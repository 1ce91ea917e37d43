// biome-ignore-all lint/performance/noBarrelFile: a package has one entry, and this file is that of the package.
// biome-ignore-all lint/performance/noReExportAll: all types of the document are public.

export { type Client, type ClientOptions, createClient } from './client.ts';
export type { Credentials, Identity, Service } from './credentials.ts';
export type { FailureKind } from './examhall-error.ts';
export { type ErrorCode, ExamhallError } from './examhall-error.ts';
export type { Clock, SentRequest } from './exchange.ts';
export type { ForwardedRequest } from './forward.ts';
export type * from './generated.ts';
export type {
  CallOptions,
  CodeOf,
  FollowOptions,
  InputOf,
  KeyOptions,
  OperationName,
  Outcome,
  ResultOf,
  SignedIn,
} from './operation.ts';
export type { Session } from './session.ts';
export type { BoardEvent, InboxEvent, JobEvent, StreamOptions } from './streams.ts';
