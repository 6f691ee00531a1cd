"""One partition as its leader sees it: epochs, in-sync set, high watermark. No I/O."""
