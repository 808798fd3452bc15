import * as React from 'react';

import { IGpuShareModel } from './model';

/** Render again each time that the seconds left until *at* (by the server's clock) change; not at all for null. */
export function useTick(model: IGpuShareModel, at: number | null): void {
  const [, setTurn] = React.useState(0);
  React.useEffect(() => {
    if (at === null) {
      return;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tick = (): void => {
      setTurn(turn => turn + 1);
      wait();
    };
    const wait = (): void => {
      const left = at - model.serverNow;
      if (left > 0) {
        timer = setTimeout(tick, toNextSecondMs(left));
      }
    };
    wait();
    return () => {
      clearTimeout(timer);
    };
  }, [model, at]);
}

/** A little past it, so that a timer that fires early does not show a second twice and skip the next. */
function toNextSecondMs(left: number): number {
  return 1000 * (left - Math.ceil(left) + 1) + 5;
}
