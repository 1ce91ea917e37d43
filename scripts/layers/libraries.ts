import { homeOf, placeOf } from './place.ts';

/** Built-in modules that compute and touch nothing outside the process. */
const PURE_BUILTINS = ['assert', 'buffer', 'crypto', 'string_decoder', 'url', 'util'];

/** Libraries with a home of their own. Any other library has its home in the first folder that imports it. */
const HOMES: Readonly<Record<string, readonly string[]>> = {
  mongodb: ['shared/infra/mongo'],
  ioredis: ['shared/infra/redis'],
  redis: ['shared/infra/redis'],
  'bee-queue': ['shared/infra/redis'],
  pino: ['shared/infra/log'],
  '@opentelemetry/api': ['shared/infra/trace'],
  '@prometheus-io/client': ['shared/infra/metrics'],
  restify: ['api'],
  bcrypt: ['shared/infra/passwords'],
  jsonwebtoken: ['shared/infra/jwt', 'shared/infra/channels'],
  'rate-limiter-flexible': ['shared/infra/redis'],
  '@zxcvbn-ts/language-common': ['shared/infra/passwords'],
  'libphonenumber-js': ['shared/auth'],
  undici: ['shared/infra/models'],
  'eventsource-parser': ['shared/infra/models'],
  nodemailer: ['shared/infra/channels'],
};

/** Free of the one-home rule, each for its reason. */
const HOMELESS: Readonly<Record<string, string>> = {
  'decimal.js': 'exact arithmetic, pure: the kernel and the rules of every service compute with it',
  'ipaddr.js': 'the registry of special addresses, pure',
  'lru-cache': 'bounds a memory, pure: there is nothing to wrap',
  'p-limit': 'bounds concurrency, pure: there is nothing to wrap',
};

/** Libraries that a pure layer may load. `libphonenumber-js` computes from its own tables; HOMES restricts it to one service. */
const PURE_LIBRARIES = ['decimal.js', 'ipaddr.js', 'libphonenumber-js'];

/** `mongodb/lib/x` → `mongodb`, `@a/b/c` → `@a/b`; undefined for built-in modules and files. */
export function packageName(specifier: string): string | undefined {
  if (specifier.startsWith('.') || specifier.startsWith('node:') || specifier.startsWith('#')) return undefined;
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** The reason why the file may not load this built-in module; undefined when it may. */
export function brokenBuiltin(path: string, specifier: string): string | undefined {
  const { layer } = placeOf(path);
  if (layer !== 'kernel' && layer !== 'rules') return undefined;
  const [name] = specifier.replace(/^node:/, '').split('/');
  return PURE_BUILTINS.includes(name ?? '')
    ? undefined
    : `${layer === 'kernel' ? 'the kernel does' : 'rules do'} no I/O`;
}

/** The reason why the file may not load this library; `typeOnly` imports load nothing and are free everywhere but in the kernel. */
export function brokenLibrary(path: string, library: string, production: ReadonlySet<string>): string | undefined {
  const { layer } = placeOf(path);
  if ((layer === 'kernel' || layer === 'rules') && !PURE_LIBRARIES.includes(library)) {
    return `only ${PURE_LIBRARIES.join(', ')} may be loaded in a pure layer: rules are tested without anything around them`;
  }
  if (!production.has(library))
    return 'it is no production dependency: an image without development packages would not start';
  const homes = HOMES[library];
  if (homes !== undefined && !homes.includes(homeOf(path))) return `only ${homes.join(' or ')} imports ${library}`;
  return undefined;
}

/** Libraries that more than one folder loads: `[library, homes]`. */
export function scatteredLibraries(uses: ReadonlyMap<string, ReadonlySet<string>>): [string, string[]][] {
  return [...uses]
    .filter(([library, homes]) => HOMES[library] === undefined && HOMELESS[library] === undefined && homes.size > 1)
    .map(([library, homes]) => [library, [...homes].sort()]);
}
