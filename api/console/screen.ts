import type { WrongTokens } from '#api/http/wrong-tokens.ts';
import type { Route } from '#api/route.ts';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { BoardPage } from '#infra/mongo/exam-room/board.ts';
import type { ClusterReader } from '#infra/mongo/operations/cluster.ts';
import type { WantedPage } from '#infra/mongo/operations/exam-attempts.ts';
import type { Asked, Trace } from '#infra/mongo/operations/trace.ts';
import type { Board } from '#shared/generated/exam-room.ts';
import type { Exam, ExamAttemptList } from '#shared/generated/operations.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Html } from './html.ts';
import type { Language, Text } from './words.ts';

/** Dependencies of the console. */
export interface ConsoleDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  log: Pick<Log, 'info' | 'warn' | 'error'>;
  opsToken: Secrets | undefined;
  production: boolean;
  /** Counts wrong tokens of the sign-in. */
  wrongTokens: WrongTokens;
  /** Returns true once the database is usable. */
  usable: () => boolean;
  cluster: ClusterReader;
  /** Reads a trace for an operator, logs the read, and audits that of a person. Null: nothing is stored. */
  trace: (asked: Asked, by: { operator: string; requestId: string }) => Promise<Trace | null>;
  /** Reads the counts of an exam, once for all who view it at the same time. Null: nothing of the exam is stored. */
  exam: (examId: string) => Promise<Exam | null>;
  /** Reads a page of an exam's attempts for an operator, logs the read, and audits that of one student. Null: the exam is unknown. */
  examAttempts: (page: WantedPage, by: { operator: string; requestId: string }) => Promise<ExamAttemptList | null>;
  /** Reads a page of the board of an exam for an operator, logs the read and audits it. */
  board: (page: BoardPage, by: { operator: string; requestId: string }) => Promise<Board>;
  /** Claims of a bulk act before it is dead. */
  commandAttempts: number;
  /** The login of the auth service, if this process serves it; otherwise only OPS_TOKEN opens the console. */
  auth: { login: Route['handle']; settings: Pick<AuthSettings, 'jwt' | 'sessionMaxMs'> } | null;
}

/**
 * A page of the console: one file with its address, its title and a function that returns its content. The frame with navigation, the check of
 * the session and the headers are those of every page.
 */
export interface Screen {
  /** Path below /ops; a segment may be a parameter, `:examId`. */
  path: `/ops/${string}`;
  title: Text;
  /** Path of the screen that the navigation marks instead. A page with it is not in the navigation itself. */
  within?: `/ops/${string}`;
  /** True if the page fetches itself again every five seconds. */
  refreshes?: true;
  render(call: PageCall): Promise<Html | Shown>;
  acts?: readonly Act[];
}

/** The effect of a form. The form posts to `path` and contains `call.proof`. */
export interface Act {
  path: `/ops/${string}`;
  /** Returns the path to which the browser goes next, or the content of a page with what is wrong. */
  run(call: ActCall): Promise<{ to: string } | Shown>;
}

/** Content with a status other than 200. */
export interface Shown {
  status: number;
  html: Html;
}

/** A request for a page by a signed-in operator. */
export interface PageCall {
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  language: Language;
  /** Name of the operator as the audit writes it. */
  operator: string;
  /** Hidden field for every form: the proof that it comes from this session. */
  proof: Html;
  requestId: string;
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
}

export interface ActCall extends PageCall {
  form: Form;
}

/** The fields of a form. */
export interface Form {
  /** Returns the trimmed value of a field; empty without one. */
  text(name: string): string;
  /** Returns the values of all fields of this name, such as ticked boxes. */
  all(name: string): string[];
}

/** Returns the fields of a form that the server has read. */
export function formOf(fields: readonly { name: string; value: string }[]): Form {
  const all = (name: string) => fields.flatMap((field) => (field.name === name ? [field.value] : []));
  return { all, text: (name) => all(name)[0]?.trim() ?? '' };
}
