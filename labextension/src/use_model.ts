import * as React from 'react';

import { IGpuShareModel } from './model';

/** Render again on every change of *model*. */
export function useModel(model: IGpuShareModel): void {
  const [, setTurn] = React.useState(0);
  React.useEffect(() => {
    const update = (): void => {
      setTurn(turn => turn + 1);
    };
    model.changed.connect(update);
    update(); // something may have changed between the first rendering and now
    return () => {
      model.changed.disconnect(update);
    };
  }, [model]);
}
