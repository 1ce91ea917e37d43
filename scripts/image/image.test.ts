import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { contextFiles, ignoreRules, isIgnored } from './context.ts';
import { assignments, execForm, readDockerfile } from './dockerfile.ts';
import { findHadolint } from './hadolint.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const DOCKERFILE = path.join(ROOT, 'Dockerfile');
const RUN = path.join(ROOT, 'deploy/run');

t.test('the image has the pinned Node, no root, and one entry point for every process type', async (t) => {
  const version = readFileSync(path.join(ROOT, '.nvmrc'), 'utf8').trim();
  const stages = readDockerfile(readFileSync(DOCKERFILE, 'utf8'));
  for (const { base } of stages) t.equal(base, `node:${version}-slim`);
  const digest = `@sha256:${'0'.repeat(64)}`;
  const pinned = readDockerfile(readFileSync(DOCKERFILE, 'utf8').replace(/^ARG NODE_DIGEST=$/m, `$&${digest}`));
  for (const { base } of pinned) t.equal(base, `node:${version}-slim${digest}`, 'every stage has the same base');
  const last = stages.at(-1)?.instructions ?? [];
  const texts = (name: string) => last.filter((one) => one.name === name).map(({ text }) => text);
  t.strictSame(texts('USER'), ['1000:1000'], 'by number, so that a platform can verify that it is not root');
  t.strictSame(texts('ENTRYPOINT').map(execForm), [['/app/deploy/run']]);
  t.strictSame(texts('CMD').map(execForm), [['web']]);
  t.match(texts('HEALTHCHECK')[0], /CMD \["node", "deploy\/health\.mjs"\]$/);
  t.match(assignments(texts('ENV').join(' ')), { NODE_ENV: 'production', METRICS_PORT: '9464' });
  const users = stages[0]?.instructions.filter((one) => one.name === 'USER').map(({ text }) => text);
  t.strictSame(users, ['1000:1000'], 'the compile cache belongs to the user that fills it');
});

t.test('.dockerignore admits what runs, and no test, secret, document or installed package', async (t) => {
  const files = contextFiles(ROOT);
  for (const file of [
    'api/main.ts',
    'workers/main.ts',
    'scripts/migrate.ts',
    'schemas/auth/user.json',
    'Procfile',
    'LICENSE',
  ])
    t.ok(files.includes(file), file);
  for (const file of files) t.notMatch(file, /\.test\.ts$|(^|\/)node_modules\/|^\.env|^\.git|^docs\/|^\.cache/, file);
  t.ok(files.length < 1_000, `${files.length} files`);
});

t.test('a line of .dockerignore leaves out, and one with ! takes in again, as docker does', async (t) => {
  const rules = ignoreRules('# a comment\n*\n!api\n!scripts/services/port.ts\n**/*.test.ts\nshared/?.md\n');
  const cases: readonly [string, boolean][] = [
    ['.env', true],
    ['node_modules/ajv/package.json', true],
    ['api/main.ts', false],
    ['api/auth/routes.ts', false],
    ['api/auth/routes.test.ts', true],
    ['scripts/services/port.ts', false],
    ['scripts/services/redis.ts', true],
    ['shared/a.md', true],
  ];
  for (const [file, ignored] of cases) t.equal(isIgnored(file, rules), ignored, file);
});

t.test('reads stages, flags, arguments and continued lines of a Dockerfile', async (t) => {
  const [build, last] = readDockerfile(`# a comment
ARG V=24
FROM node:\${V}-slim AS build
RUN a \\
  # between
  && b
FROM node:\${V}-slim
COPY --from=build --chown=0:0 /a /b
ENV A=1 B="two words"
`);
  t.strictSame(build, {
    base: 'node:24-slim',
    name: 'build',
    instructions: [{ name: 'RUN', flags: {}, text: 'a && b' }],
  });
  t.strictSame(last?.instructions[0], { name: 'COPY', flags: { from: 'build', chown: '0:0' }, text: '/a /b' });
  t.strictSame(assignments(last?.instructions[1]?.text ?? ''), { A: '1', B: 'two words' });
});

/** Runs `deploy/run` with a `node` that prints its arguments, or what `script` prints. */
function arguments_(
  t: { teardown(work: () => void): void },
  args: readonly string[],
  { env: more = {}, script = 'printf "%s\\n" "$@"' }: { env?: NodeJS.ProcessEnv; script?: string } = {},
) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-run-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, 'bin'));
  writeFileSync(path.join(folder, 'bin/node'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  symlinkSync(RUN, path.join(folder, 'run'));
  const env = { ...more, PATH: `${folder}/bin:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync('sh', [path.join(folder, 'run'), ...args], { env, encoding: 'utf8' });
  return { status, words: stdout.trim().split('\n'), stderr };
}

t.test('deploy/run starts the command of the Procfile with the permissions of Node', async (t) => {
  const { words } = arguments_(t, ['grading']);
  t.ok(words.includes('--permission'));
  t.strictSame(words.slice(-4), ['--import', './compile-cache.mjs', 'workers/main.ts', 'grading']);
  t.strictSame(arguments_(t, ['grading-2']).words, words, 'a number distinguishes processes of one machine');
  t.strictSame(arguments_(t, ['node', ...words.slice(-4)]).words, words, 'platforms pass the command itself');
  t.equal(arguments_(t, []).words.at(-1), 'api/main.ts');
  t.strictSame(
    words.filter((word) => word.startsWith('--allow-fs-write=')),
    [`--allow-fs-write=${ROOT}/node_modules/.cache/compiled`],
  );
  for (const word of words) t.notMatch(word, /^--allow-(child-process|inspector|wasi)|=\*$|=\/(proc\/self\/?)?$/);
});

t.test('deploy/run permits threads to workers alone', async (t) => {
  const threads = (...args: string[]) => arguments_(t, args).words.includes('--allow-worker');
  t.ok(threads('grading'));
  t.ok(threads('node', 'workers/main.ts', 'upkeep'));
  for (const args of [['web'], ['release'], ['examhall', 'status'], ['node', 'api/main.ts']])
    t.notOk(threads(...args), args.join(' '));
});

t.test('deploy/run passes a port on, and no empty one, which Dokku sets for workers', async (t) => {
  for (const name of ['PORT', 'METRICS_PORT']) {
    const portOf = (env: NodeJS.ProcessEnv) =>
      arguments_(t, ['grading'], { env, script: `printenv ${name} || echo none` }).words;
    t.strictSame(portOf({}), ['none'], name);
    t.strictSame(portOf({ [name]: '' }), ['none'], name);
    t.strictSame(portOf({ [name]: '3001' }), ['3001'], name);
  }
});

t.test('deploy/run lets Node read the folder of credentials that the platform has mounted', async (t) => {
  const readable = (env: NodeJS.ProcessEnv) =>
    arguments_(t, ['grading'], { env }).words.filter((word) => word.startsWith('--allow-fs-read=/run/'));
  t.strictSame(readable({}), ['--allow-fs-read=/run/secrets/*']);
  t.strictSame(readable({ CREDENTIALS_DIRECTORY: '/run/credentials/examhall@web.service' }), [
    '--allow-fs-read=/run/secrets/*',
    '--allow-fs-read=/run/credentials/examhall@web.service/*',
  ]);
});

t.test('deploy/run runs the tool of the operator, which may use files below /work', async (t) => {
  const { words } = arguments_(t, ['examhall', 'person', 'export', 'two words']);
  t.strictSame(words.slice(-4), ['scripts/examhall.ts', 'person', 'export', 'two words']);
  t.ok(words.includes('--allow-fs-write=/work/*'));
});

t.test('deploy/run refuses an unknown process type and lists the known ones', async (t) => {
  for (const type of ['grade', 'web!', '.*', 'web/../x', '-c']) {
    const { status, stderr, words } = arguments_(t, [type]);
    t.equal(status, 2, type);
    t.match(stderr, /^error: ".*" is no process type; expected one of: release web grading /);
    t.strictSame(words, ['']);
  }
});

t.test('the shell scripts of the image are valid for a POSIX shell', async (t) => {
  for (const name of ['run', 'prune']) execFileSync('sh', ['-n', path.join(ROOT, 'deploy', name)]);
  t.end();
});

const hadolint = await findHadolint();
t.test('hadolint finds no fault in the Dockerfile', { skip: hadolint.file === null && hadolint.missing }, async (t) => {
  const lint = (input: string) =>
    spawnSync(hadolint.file ?? '', ['--no-color', '-'], { input, encoding: 'utf8' }).stdout.trim();
  t.equal(lint(readFileSync(DOCKERFILE, 'utf8')), '');
  t.match(lint('FROM node:latest\nRUN sudo a\n'), /DL3007/);
});
