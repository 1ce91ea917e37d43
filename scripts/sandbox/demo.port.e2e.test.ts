import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { answerJson, listenLocally } from '#scripts/http/local-server.ts';

const DEMO = path.join(import.meta.dirname, 'demo.ts');

t.test('a demo whose port is taken reports it without a stack', async (t) => {
  const cluster = await listenLocally((_call, response) => {
    answerJson(response, { status: 200, body: { data: { checks: {} } } });
  });
  t.teardown(() => cluster.close());
  const { port } = new URL(cluster.url);
  // The port of the cluster itself is certainly taken.
  const demo = spawn(process.execPath, [DEMO, '--url', cluster.url, '--profile-port', port]);
  const [out, err, [code]] = await Promise.all([text(demo.stdout), text(demo.stderr), once(demo, 'close')]);
  t.equal(code, 1);
  t.equal(out, '');
  t.equal(err.trim(), `error: port ${port} is in use, perhaps by another demo; end that one, or pass --profile-port`);
});
