import t from 'tap';
import { captureLog } from '#testing/captured-log.ts';
import { adapterSuite } from '#testing/suites/adapter-suite.ts';
import { logAdapter } from './channels.ts';

t.test('the log adapter passes the adapter suite, and logs neither content nor user', async (t) => {
  const log = captureLog();
  const adapter = logAdapter(log);
  await adapterSuite(t, {
    adapter,
    secrets: [],
    taken: () => log.lines.map(({ fields }) => String(fields.deliveryJobId)),
  });
  for (const { fields } of log.lines) {
    t.strictSame(Object.keys(fields).sort(), ['deliveryJobId', 'notificationId', 'type']);
  }
});
