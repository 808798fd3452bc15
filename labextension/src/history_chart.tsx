import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { duration, memory, percent } from './format';
import { IGpuShareModel } from './model';
import type { Plot } from './plot';

interface IHistoryProps {
  model: IGpuShareModel;
  trans: TranslationBundle;
}

/** The last hour, or what there is of it, as a chart. The chart library is fetched when this is first shown, not when Lab starts. */
export function HistoryChart({ model, trans }: IHistoryProps): React.JSX.Element {
  const host = React.useRef<HTMLDivElement>(null);
  const isMissing = usePlot(host, model);
  return (
    <section className="jp-gpushare-Section" data-testid="gpushare-history">
      <h3>
        {heading(model, trans)}{' '}
        <span className="jp-gpushare-Legend">
          <span>
            <i data-line="memory" aria-hidden="true" />
            {trans.__('memory')}
          </span>
          <span>
            <i data-line="compute" aria-hidden="true" />
            {trans.__('compute')}
          </span>
        </span>
      </h3>
      <div ref={host} className="jp-gpushare-Chart" role="img" aria-label={inWords(model, trans)} />
      {isMissing && <p>{trans.__('The chart could not be loaded. Reload the page to try again.')}</p>}
    </section>
  );
}

/** Draw into *host* for as long as it is shown. Returns whether the chart library could not be had. */
function usePlot(host: React.RefObject<HTMLDivElement>, model: IGpuShareModel): boolean {
  const [plot, setPlot] = React.useState<Plot | null>(null);
  const [isMissing, setMissing] = React.useState(false);
  React.useEffect(() => {
    let isGone = false;
    let made: Plot | null = null;
    void model.loadHistory();
    import('./plot')
      .then(module => {
        if (!isGone && host.current) {
          made = new module.Plot(host.current);
          setPlot(made);
        }
      })
      .catch(() => {
        setMissing(true); // no chunk, or no canvas: the panel goes on without a chart
      });
    return () => {
      isGone = true;
      made?.dispose();
    };
  }, [host, model]);
  React.useEffect(() => {
    plot?.draw(model.history, model.snapshot?.share.limit ?? null);
  });
  return isMissing;
}

function heading({ history }: IGpuShareModel, trans: TranslationBundle): string {
  const { spanS } = history;
  return spanS > 3500 ? trans.__('Last hour') : trans.__('Last %1', duration(spanS, trans));
}

/** The chart for those who do not see it. */
function inWords(model: IGpuShareModel, trans: TranslationBundle): string {
  const peak = highest(model.history.moments.map(moment => moment.memory));
  const busiest = highest(model.history.moments.map(moment => moment.utilisation));
  return trans.__(
    'Memory and compute of late: at most %1 and %2',
    memory(peak, trans),
    percent(busiest, trans)
  );
}

function highest(column: readonly (number | null)[]): number | null {
  return column.reduce(
    (top, value) => (value === null || (top !== null && top >= value) ? top : value),
    null
  );
}
