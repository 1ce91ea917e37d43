import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { buildClient, compile } from '#scripts/generate/client.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const PACKAGE = path.join(ROOT, 'clients/typescript');

function manifestAt(folder: string) {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
}

t.test('the package has the version of the server, and pins the parser of events that the server uses', async (t) => {
  const [own, server] = [manifestAt(PACKAGE), manifestAt(ROOT)];
  t.equal(own.version, server.version);
  t.equal(own.license, server.license);
  t.strictSame(own.dependencies, { 'eventsource-parser': server.dependencies['eventsource-parser'] });
  const [license, copy] = [ROOT, PACKAGE].map((folder) => readFileSync(path.join(folder, 'LICENSE'), 'utf8'));
  t.equal(copy, license);
});

t.test('the packed client holds its JavaScript and its types alone, and works for another project', async (t) => {
  const project = t.testdir();
  const installed = path.join(project, 'node_modules/@examhall/client');
  mkdirSync(installed, { recursive: true });
  for (const file of ['package.json', 'README.md', 'LICENSE']) {
    cpSync(path.join(PACKAGE, file), path.join(installed, file));
  }
  await buildClient(path.join(installed, 'dist'));

  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--loglevel=error'];
  const packed = spawnSync('npm', args, { cwd: installed, encoding: 'utf8' });
  t.equal(packed.status, 0, packed.stderr);
  const names: string[] = JSON.parse(packed.stdout)[0].files.map((file: { path: string }) => file.path);
  const others = names.filter((name) => !/^dist\/[\w-]+\.(js|d\.ts)$/.test(name));
  t.strictSame(others.sort(), ['LICENSE', 'README.md', 'package.json']);
  t.ok(names.includes('dist/index.js') && names.includes('dist/index.d.ts'));
  t.notOk(names.some((name) => /test|script|misuse/.test(name)));

  const modules = path.join(ROOT, 'node_modules');
  for (const name of ['eventsource-parser', '@types', 'undici-types', 'jsonwebtoken']) {
    symlinkSync(path.join(modules, name), path.join(project, 'node_modules', name));
  }
  const readme = readFileSync(path.join(PACKAGE, 'README.md'), 'utf8');
  const blocks = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code);
  t.ok(blocks.length > 3);
  for (const [index, code] of blocks.entries())
    writeFileSync(path.join(project, `block-${index}.ts`), `${code}\nexport {};\n`);
  for (const name of ['start-exam.ts', 'gateway.ts'])
    cpSync(path.join(ROOT, 'examples', name), path.join(project, name));
  writeFileSync(path.join(project, 'package.json'), JSON.stringify({ type: 'module' }));
  const options = {
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2023'],
    types: ['node'],
    strict: true,
    noEmit: true,
  };
  writeFileSync(path.join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['*.ts'] }));
  await compile(['-p', project], project);

  const use =
    "import('@examhall/client').then(({ createClient }) => createClient({ baseUrl: 'http://x' }).readMe.length)";
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', use], { cwd: project, encoding: 'utf8' });
  t.equal(run.status, 0, run.stderr);
});
