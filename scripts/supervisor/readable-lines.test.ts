import t, { type Test } from 'tap';
import { openLog } from '#infra/log/log.ts';
import { outputFor, planCluster } from './cluster.ts';

/** Returns what `npm start` prints of the log of its front door, without the prefixes. */
async function printed(t: Test, given: NodeJS.ProcessEnv): Promise<string[]> {
  const plan = planCluster({ DATA_DIR: t.testdir() });
  const texts: string[] = [];
  const screen = { write: (text: string) => texts.push(text), isTTY: false } as unknown as NodeJS.WriteStream;
  const output = await outputFor({ ...plan, env: { ...plan.env, ...given } }, screen, {});
  const stream = output.stream('web');
  const { log } = openLog({
    level: 'info',
    name: 'web',
    destination: { write: (text) => stream.write(Buffer.from(text)) },
  });
  log.info({ port: 3_000 }, 'front door is open');
  log.error({ err: new Error('the disk is full') }, 'request failed');
  stream.write(Buffer.from('{"of":"another program"}\n'));
  stream.end();
  return texts.flatMap((text) => text.trimEnd().split('\n')).map((line) => line.replace(/^web +\| /, ''));
}

const isJson = (line: string) => line.startsWith('{"level":');

t.test('npm start prints log lines that a person reads', async (t) => {
  const lines = await printed(t, {});
  t.match(lines[0], /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: front door is open \{"port":3000\}$/);
  t.ok(lines.some((line) => /ERROR: request failed/.test(line)));
  t.ok(lines.some((line) => line.includes('the disk is full')));
  t.notOk(lines.some(isJson));
  t.equal(lines.at(-1), '{"of":"another program"}', 'the output of other programs stays as it is');
});

t.test('in production npm start prints the lines of JSON that a collector reads', async (t) => {
  const lines = await printed(t, { NODE_ENV: 'production' });
  t.equal(lines.filter(isJson).length, 2);
  t.match(JSON.parse(lines[0] ?? ''), { name: 'web', port: 3_000, msg: 'front door is open' });
});
