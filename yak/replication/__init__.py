"""One partition as its leader sees it: epochs, ISR, high watermark. No I/O."""
