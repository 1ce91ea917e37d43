import t from 'tap';
import { heldLog } from '#testing/held-log.ts';
import { adapterSuite } from '#testing/suites/adapter-suite.ts';
import { logAdapter } from './channels.ts';

t.test('the log adapter passes the adapter suite, and logs neither content nor user', async (t) => {
  const log = heldLog();
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
