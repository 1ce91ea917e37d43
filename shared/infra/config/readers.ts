export const SERVICE_NAMES = ['attempt', 'auth', 'classifier', 'notification'] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];

/** The worker types of the Procfile. */
const WORKER_TYPES = [
  'grading',
  'essayhandoff',
  'resultsrelease',
  'examroom',
  'gradenotices',
  'accountnotices',
  'delivery',
  'classifier',
  'settlement',
  'upkeep',
] as const;
export type WorkerType = (typeof WORKER_TYPES)[number];

export function isWorkerType(name: string): name is WorkerType {
  return (WORKER_TYPES as readonly string[]).includes(name);
}

/** The process types of the Procfile, and the tool of operators. */
export const PROCESS_TYPES = ['web', ...WORKER_TYPES, 'release', 'examhall'] as const;
export type ProcessType = (typeof PROCESS_TYPES)[number];

export function isProcessType(name: string): name is ProcessType {
  return (PROCESS_TYPES as readonly string[]).includes(name);
}

/**
 * The process that a configuration is read for. `cluster` is all processes of one machine together,
 * as `npm start` checks them and tests run them: it reads every variable.
 */
export type ConfiguredAs = ProcessType | 'cluster';

/** A reader of a variable: a process type, or of the type `web` the front door of one service. */
export type Reader = ProcessType | `web:${ServiceName}`;

/** Readers of the connection string of MongoDB. */
export const EVERY_TYPE: readonly Reader[] = PROCESS_TYPES;
/** Readers of the connection string of Redis. */
export const ALL_BUT_RELEASE: readonly Reader[] = PROCESS_TYPES.filter((type) => type !== 'release');
/** Readers of the token of monitoring: every process that answers `/metrics`. */
export const SCRAPED: readonly Reader[] = ['web', ...WORKER_TYPES];
/** Front doors that require the token of other services. */
export const DOORS_OF_SERVICES: readonly Reader[] = ['web:attempt', 'web:classifier', 'web:notification'];
/** Workers that call other services with that token. */
export const CALLING_WORKERS: readonly Reader[] = [
  'gradenotices',
  'accountnotices',
  'delivery',
  'classifier',
  'settlement',
  'upkeep',
];

/** A process that reads its configuration. */
export interface ReadingProcess {
  type: ConfiguredAs;
  /** The services of a process with front doors; empty in every other one. */
  services: ReadonlySet<ServiceName>;
}

/**
 * Returns true if the process reads a variable with these readers. A variable without readers is
 * for every process.
 */
export function isReadBy(readers: readonly Reader[] | undefined, { type, services }: ReadingProcess): boolean {
  if (readers === undefined || type === 'cluster' || readers.includes(type)) return true;
  return [...services].some((service) => readers.includes(`web:${service}`));
}

/**
 * Returns a process as messages name it: a `web` with some of its services is another one than a
 * `web` with all.
 */
export function processInWords({ type, services }: ReadingProcess): string {
  const isPart = type === 'web' && services.size < SERVICE_NAMES.length;
  return isPart ? `\`web\` with SERVICES=${[...services].join(',')}` : `\`${type}\``;
}

/**
 * Returns the readers of a variable as documents name them: `web` with some of its services, then
 * the other types.
 */
export function readersInWords(readers: readonly Reader[]): string {
  const missing = PROCESS_TYPES.filter((type) => !readers.includes(type));
  if (missing.length <= 1) return ['every process', ...missing.map((type) => `\`${type}\``)].join(' but ');
  const services = SERVICE_NAMES.filter((service) => readers.includes(`web:${service}`));
  const ofServices = services.map((service) => `\`${service}\``).join(', ');
  const doors = services.length === 0 ? [] : [`\`web\` that serves ${ofServices}`];
  const workers = WORKER_TYPES.filter((type) => readers.includes(type));
  const isScraped = workers.length === WORKER_TYPES.length;
  const types = readers.filter((reader) => !reader.includes(':') && !(isScraped && isWorkerType(reader)));
  return [...doors, ...types.map((type) => `\`${type}\``), ...(isScraped ? ['every worker'] : [])].join('; ');
}
