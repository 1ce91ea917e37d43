import { endStores } from './stores.ts';

/** Program: `after` of .taprc. Ends the stores of the run. */
endStores(process.ppid);
