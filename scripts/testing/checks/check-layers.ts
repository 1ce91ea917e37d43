import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * Checks the layers of ARCHITECTURE.md: kernel ← rules ← infra ← api | workers. Prints each violation and exits with 1 if there is one.
 * Biome finds circles, undeclared packages, `require`, and files of more than 300 lines (`biome.json`).
 */
export interface Violation {
  readonly where: string;
  readonly what: string;
  readonly reason: string;
}

const SERVICES = 'attempt|auth|classifier|exam-room|notification';
/** Folders that are a part of a service: they import its folders, which do not import them. */
const SERVICE_OF_PART: Readonly<Record<string, string>> = { 'exam-room': 'attempt' };
/** The service whose rules an actor applies: `all` sweeps for every service. */
const SERVICE_OF_ACTOR: Readonly<Record<string, string>> = {
  grading: 'attempt',
  'essay-handoff': 'attempt',
  'results-release': 'attempt',
  'exam-room': 'exam-room',
  'grade-notices': 'attempt',
  'account-notices': 'auth',
  classifier: 'classifier',
  settlement: 'classifier',
  delivery: 'notification',
  upkeep: 'all',
};
const ACTORS = Object.keys(SERVICE_OF_ACTOR).join('|');
/** Folders of shared/infra/mongo that serve every service: the indexes, commands and traces of all, and what all expect of the server. */
const MONGO_SHARED = 'mailbox|operations|person|probe|schema';
/** Rules of every other folder than OWN, which is the folder of the importing file. */
const OTHER_RULES = 'shared/(?!infra/|kernel/|generated/|OWN/)[^/]+/';
const OTHER_SERVICE = 'no service folder imports another service';

/** Importing files, imported files that are refused, and the reason. OWN is the group of the first expression. */
const ARROWS: readonly (readonly [from: string, to: string, reason: string])[] = [
  ['', '.*\\.test\\.ts$', 'a test is imported by nothing'],
  ['(?!scripts/)', 'scripts/', 'scripts/ is not part of what runs in production'],
  [
    '(?!scripts/)',
    'clients/|@examhall/client',
    'the client is for callers of the server, which never calls itself by it',
  ],
  [
    'scripts/(?!testing/|bench/)',
    'scripts/(?:testing|bench)/',
    'what users run stands without what proves it and what measures it',
  ],
  ['shared/kernel/', '(?!shared/kernel/)', 'the kernel imports nothing of ours: everything else stands on it'],
  ['shared/generated/', '(?!shared/generated/)', 'generated types come from schemas/ alone'],
  ['shared/(?!kernel/|generated/|infra/)([^/]+)/', OTHER_RULES, OTHER_SERVICE],
  [
    'shared/(?!kernel/|generated/|infra/)',
    '(?!shared/)|shared/infra/',
    'rules are pure: they know neither stores nor processes',
  ],
  ['shared/infra/', 'api/|workers/', 'infra stands below api and workers'],
  [`shared/infra/mongo/(${SERVICES})/`, `shared/infra/mongo/(?!OWN/)(${SERVICES})/`, OTHER_SERVICE],
  [`shared/infra/mongo/(${SERVICES})/`, `(?!shared/(${MONGO_SHARED})/)${OTHER_RULES}`, OTHER_SERVICE],
  [
    // A process waits until its schema is usable.
    'shared/infra/mongo/(?!until-usable\\.ts)[^/]+$',
    'shared/infra/mongo/[^/]+/',
    'every folder of MongoDB stands on these files, which know none of the folders',
  ],
  [
    'api/(?!classifier/settlement\\.ts$)',
    'workers/',
    'a front door never does the work of an actor: it writes a command and rings',
  ],
  ['api/(?!main\\.ts)[^/]+$', 'api/(?!http/)[^/]+/', 'only main.ts mounts the services'],
  ['api/http/', 'api/(?!http/)[^/]+/', 'http serves every service and knows none'],
  ['api/(?!http/)([^/]+)/', 'api/(?!OWN/|http/)[^/]+/', OTHER_SERVICE],
  [`api/(${SERVICES})/`, OTHER_RULES, OTHER_SERVICE],
  ['workers/', 'api/', 'an actor works without any front door in its process'],
  ['workers/(?!actors\\.ts)[^/]+$', 'workers/[^/]+/', 'only actors.ts lists the actors'],
  ['workers/([^/]+)/', 'workers/(?!OWN/)[^/]+/', 'actors share the kernel files of workers/, not each other'],
  ...Object.entries(SERVICE_OF_ACTOR)
    .filter(([, service]) => service !== 'all')
    .map(
      ([actor, service]) => [`workers/${actor}/`, OTHER_RULES.replace('OWN', ownOf(service)), OTHER_SERVICE] as const,
    ),
];

/** Every folder of these, so that a rule holds for it. */
const FOLDERS: readonly (readonly [form: RegExp, table: string])[] = [
  [new RegExp(`^workers/(?!(?:${ACTORS})/)[^/]+/`), 'SERVICE_OF_ACTOR'],
  [new RegExp(`^api/(?!(?:${SERVICES}|http|operations|console|reference)/)[^/]+/`), 'FOLDERS'],
  [new RegExp(`^shared/infra/mongo/(?!(?:${SERVICES}|${MONGO_SHARED})/)[^/]+/`), 'MONGO_SHARED'],
];

/** The only files that load a library. Pure layers load no others than decimal.js, ipaddr.js and the phone tables, which compute. */
const HOMES: Readonly<Record<string, string>> = {
  'shared/infra/mongo/': 'mongodb dataloader',
  'shared/infra/redis/': 'ioredis redis bee-queue',
  'shared/infra/log/': 'pino',
  'shared/infra/trace/': '@opentelemetry/api',
  'shared/infra/metrics/': '@prometheus-io/client',
  'shared/infra/schema/': 'ajv',
  'shared/infra/passwords/': 'bcrypt @zxcvbn-ts/language-common',
  'shared/infra/(?:jwt|channels)/': 'jsonwebtoken',
  'shared/infra/models/': 'undici eventsource-parser',
  'shared/infra/channels/': 'nodemailer http_ece standardwebhooks',
  'shared/auth/': 'libphonenumber-js',
  'api/': 'restify',
  '(?:api|workers|shared/infra)/': 'p-limit lru-cache',
  '': 'decimal.js ipaddr.js',
};
/** Built-in modules that compute and touch nothing outside the process. */
const PURE_BUILTINS = /^node:(?:assert|buffer|crypto|string_decoder|url|util)(?:\/|$)/;
const PURE = /^shared\/(?!infra\/)/;

const IMPORT = /^(?:import|export) (type )?(?:[^'";]*? from )?'([^']+)'|\bimport\(['`]([^'`$]+)['`]\)/gm;
const FORBIDDEN: readonly (readonly [form: RegExp, allowed: string, reason: string])[] = [
  [
    /\bimport\((?!['`][^'`$]+['`]\))|\b(?:require\(|createRequire|getBuiltinModule)/g,
    '',
    'production names each import as a literal',
  ],
  // Without the check of this file, a text with many combining marks costs the square of their number.
  [/\??\.normalize\b|\['normalize'\]/g, 'shared/kernel/text.ts', 'only shared/kernel/text.ts normalizes a text'],
];
/** A file of fewer lines that only one file of its folder imports is a part of that file. */
const SMALLEST = 40;

/** Returns the violations of production files and of the sandbox: sources by their path from the root, with `#infra/` and the like as their folders. */
export function violationsOf(sources: ReadonlyMap<string, string>): Violation[] {
  const found = new Map<string, Violation>();
  const readers = new Map<string, Set<string>>();
  const add = (where: string, what: string, reason: string) => found.set(`${where} ${what}`, { where, what, reason });

  for (const [file, source] of sources) {
    const lineAt = (at: number) => `${file}:${source.slice(0, at).split('\n').length}`;
    for (const [form, table] of FOLDERS)
      if (form.test(file))
        add(path.dirname(file), 'unknown folder', `name it in ${table}, so that a rule holds for it`);
    for (const [form, allowed, reason] of FORBIDDEN)
      for (const { 0: text, index } of withoutComments(source).matchAll(form))
        if (file !== allowed) add(lineAt(index), text, reason);
    for (const { 1: type, 2: plain, 3: dynamic, index } of source.matchAll(IMPORT)) {
      const target = targetOf(file, plain ?? dynamic ?? '');
      readers.set(target, (readers.get(target) ?? new Set()).add(file));
      const reason = brokenArrow(file, target) ?? (type === undefined ? brokenModule(file, target) : undefined);
      if (reason !== undefined) add(lineAt(index), target, reason);
    }
  }
  for (const [file, source] of sources) {
    const count = source.trimEnd().split('\n').length;
    const [only, ...others] = readers.get(file) ?? [];
    if (count < SMALLEST && only !== undefined && others.length === 0 && path.dirname(only) === path.dirname(file))
      if (!file.startsWith('shared/generated/'))
        add(file, `${count} lines`, `a noun that ${only} alone reads is a part of it`);
  }
  return [...found.values()];
}

/** Returns a source in which comments are blank, and every other character is where it was. */
function withoutComments(source: string): string {
  return source.replaceAll(/^\s*(?:\/\/.*|\/\*[\s\S]*?\*\/)/gm, (text) => text.replaceAll(/[^\n]/g, ' '));
}

/** Returns the path of an imported file, or the specifier of a package or a built-in module. */
function targetOf(file: string, specifier: string): string {
  if (specifier.startsWith('.')) return path.posix.join(path.posix.dirname(file), specifier);
  return specifier
    .replace(/^#testing\//, 'scripts/testing/')
    .replace(/^#infra\//, 'shared/infra/')
    .replace(/^#/, '');
}

/** Returns the expression of the folders that files of this one may import as their own. */
function ownOf(folder: string): string {
  const service = SERVICE_OF_PART[folder];
  return service === undefined ? folder : `(?:${folder}|${service})`;
}

function brokenArrow(file: string, target: string): string | undefined {
  const isOurs = /^(?:api|workers|shared|scripts|clients|schemas)\/|^@examhall\//.test(target);
  return ARROWS.find(([from, to]) => {
    const match = new RegExp(`^${from}`).exec(file);
    return isOurs && match !== null && new RegExp(`^(?:${to.replaceAll('OWN', ownOf(match[1] ?? ''))})`).test(target);
  })?.[2];
}

function brokenModule(file: string, target: string): string | undefined {
  if (/^(?:api|workers|shared)\/|^package\.json$/.test(target) || file.startsWith('scripts/')) return undefined;
  if (target.startsWith('node:')) {
    return PURE.test(file) && !PURE_BUILTINS.test(target) ? 'kernel and rules do no I/O' : undefined;
  }
  const [library = ''] = /^(?:@[^/]+\/)?[^/]+/.exec(target) ?? [];
  const [home] = Object.entries(HOMES).find(([, names]) => names.split(' ').includes(library)) ?? [];
  if (home === undefined) return 'name the folder that imports this library in HOMES; others import that folder';
  return new RegExp(`^${home}`).test(file) ? undefined : `only ${home} imports ${library}`;
}

if (import.meta.main) {
  const root = path.resolve(import.meta.dirname, '../../..');
  const files = globSync('{api,workers,shared,scripts}/**/*.ts', { cwd: root }).filter(
    (file) => !/\.(?:test|d)\.ts$|^scripts\/(?:testing|bench)\//.test(file),
  );
  const violations = violationsOf(
    new Map(files.sort().map((file) => [file, readFileSync(path.join(root, file), 'utf8')])),
  );
  for (const { where, what, reason } of violations) console.log(`${where}: ${what}\n    ${reason}`);
  if (violations.length > 0) console.log(`${violations.length} violations of the layers`);
  process.exitCode = violations.length > 0 ? 1 : 0;
}
