import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import t from 'tap';
import { openScratchFolder } from '#testing/scratch-folder.ts';
import { freePort, rememberedPort } from './port.ts';

const HOLDER = `import { freePort } from '${path.join(import.meta.dirname, 'port.ts')}';
process.stdout.write(String(await freePort()));
setInterval(() => {}, 60_000);`;

t.test('a port that a live process was given is given to no other, though nothing listens on it yet', async (t) => {
  const { root, put } = openScratchFolder(t);
  const holder = spawn(process.execPath, ['--input-type=module', '--eval', HOLDER], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => holder.kill('SIGKILL'));
  const theirs = Number(String((await once(holder.stdout, 'data'))[0]));
  const ours = await freePort(2);

  put('run/ports.json', JSON.stringify({ first: theirs, second: ours, third: ours + 1 }));
  t.not(await rememberedPort(root, 'first'), theirs, 'another process holds it');
  t.not(await rememberedPort(root, 'second'), ours, 'this process holds it');
  t.not(await rememberedPort(root, 'third'), ours + 1, 'and the next in its row');

  holder.kill('SIGKILL');
  await once(holder, 'close');
  put('run/ports.json', JSON.stringify({ first: theirs }));
  t.equal(await rememberedPort(root, 'first'), theirs, 'it is free after a kill -9 of its holder');
});
